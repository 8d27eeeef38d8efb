"""Large messages of GPUs, copied while they are sent and while they arrive.

A message is cut into parts, as one in tiles is (NOTE [tiles]). A part leaves when its copy in
pinned memory is complete, while the next ones are copied; and it is copied to the receiver's GPU
when it is here, while the next ones arrive. All copies are queued in the stream of the thread that
computes: later work may write to what is sent, and read what is received.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

from .devices import ReadyEvent, empty_for
from .wire.frames import bytes_between

PART_BYTES = 1 << 24  # that are copied and sent at a time, at least


class CopiedPart(NamedTuple):
    """Bytes [start, end) of a message, which are in host memory when they are ready."""

    start: int
    end: int
    ready: ReadyEvent


def sends_in_parts(tensors: Sequence[Tensor]) -> bool:
    """Returns whether a message is copied and sent in parts: a large one that is on a GPU."""
    size = sum(tensor.nbytes for tensor in tensors)
    return size >= 2 * PART_BYTES and all(tensor.is_cuda for tensor in tensors)


def arrives_in_host_memory(device: torch.device) -> bool:
    """Returns whether tensors that a party receives still have to be copied to its device."""
    return device.type != "cpu"


def to_pinned_parts(tensors: Sequence[Tensor]) -> tuple[list[Tensor], list[CopiedPart]]:
    """Begins to copy tensors to pinned memory; returns the copies, and when each part is ready.

    Whoever watches this thread's work does not see it: no program reads what is sent.
    """
    device, size = tensors[0].device, sum(tensor.nbytes for tensor in tensors)
    parts = []
    with _disable_current_modes():
        sources = [tensor.detach().contiguous() for tensor in tensors]
        copies = [empty_for(tensor.shape, tensor.dtype, device) for tensor in sources]
        count = size // PART_BYTES  # a short part would let the host wait for its copy
        for index in range(count):
            start, end = size * index // count, size * (index + 1) // count
            _copy_between(copies, sources, start, end)
            parts.append(CopiedPart(start, end, ReadyEvent(device)))
    return copies, parts


class Upload:
    """Tensors on a GPU that are filled while a message arrives in host memory."""

    def __init__(self, received: Sequence[Tensor], device: torch.device) -> None:
        self._received, self._size = received, 0
        self.tensors = [torch.empty_like(tensor, device=device) for tensor in received]

    def extend(self, size: int) -> None:
        """Copies what has come since the last call: `size` bytes of the message are here now."""
        with _disable_current_modes():
            _copy_between(self.tensors, self._received, self._size, size)
        self._size = size


def _copy_between(to: Sequence[Tensor], source: Sequence[Tensor], start: int, end: int) -> None:
    pieces = bytes_between(to, start, end), bytes_between(source, start, end)
    for target, piece in zip(*pieces, strict=True):
        target.copy_(piece, non_blocking=True)
