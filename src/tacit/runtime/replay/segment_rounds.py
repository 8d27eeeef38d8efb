"""Rounds between the segments of a party's work on a GPU, and the pinned memory for them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

from ...transport import SHORT_TENSOR_BYTES
from .ahead_messages import SegmentRound
from .plan import Outgoing, Tensors

if TYPE_CHECKING:
    from ...protocols.steps import Round
    from ...transport import Mesh

STAGED_BYTES = 1 << 22  # of a message; larger ones are copied and sent in parts


class PinnedExchange(SegmentRound):
    """A round in pinned memory of its own, which the segments around it write and read."""

    def begin(self, first: int) -> None:
        if self.sent:
            torch.cuda.current_stream().synchronize()
        super().begin(first)


class SegmentExchange(SegmentRound):
    """A round between two segments.

    What is sent goes to the host before the next segment can write to its memory: both are queued
    in the same stream. Messages that are not large pass through pinned memory that is allocated
    once.
    """

    def __init__(
        self, mesh: Mesh, one: Round, sent: Tensors, places: Tensors, operation: int
    ) -> None:
        super().__init__(mesh, one, {}, places, operation)
        self.sent, self._is_on_gpu = sent, mesh.device.type == "cuda"
        self._staged = {
            peer: [PinnedCopies(x) for x in xs] for peer, xs in sent.items() if self._is_small(xs)
        }

    @cached_property
    def into(self) -> Tensors:
        """Pinned memory; the first replay allocates it, because a capture must not."""
        return {
            peer: [pinned(x.shape, x.dtype) for x in xs]
            for peer, xs in self.places.items()
            if self._is_small(xs)
        }

    def _is_small(self, tensors: Sequence[Tensor]) -> bool:
        return self._is_on_gpu and sum(x.nbytes for x in tensors) <= STAGED_BYTES

    def _outgoing(self) -> Tensors:
        if not self._staged:
            return self.sent
        staged = {peer: [x.copy() for x in xs] for peer, xs in self._staged.items()}
        torch.cuda.current_stream().synchronize()
        return {peer: staged.get(peer, xs) for peer, xs in self.sent.items()}

    def take(self, received: Tensors) -> None:
        for peer, places in self.places.items():
            for place, tensor in zip(places, received[peer], strict=True):
                place.copy_(tensor, non_blocking=True)


class PinnedCopies(Outgoing):
    """Copies of one tensor of a GPU in pinned memory, complete when its stream is."""

    def _new(self) -> Tensor:
        return pinned(self.source.shape, self.source.dtype)

    def _written(self, copy: Tensor) -> Tensor:
        return copy.copy_(self.source, non_blocking=True)


def pinned(shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """Returns pinned memory; a plan would give a tensor other memory, which is not pinned."""
    with _disable_current_modes():
        return torch.empty(tuple(shape), dtype=dtype, pin_memory=True)


def is_pinned(one: Round, tensors: Tensors, mesh: Mesh) -> bool:
    """Whether messages of these tensors, by peer, keep pinned memory of their own."""
    return all(
        sum(x.nbytes for x in xs) <= _longest(one, mesh, peer) and all(x.is_cuda for x in xs)
        for peer, xs in tensors.items()
    )


def _longest(one: Round, mesh: Mesh, peer: int) -> int:
    """What is sent ahead follows other messages at once, and waits for its turn in any case."""
    return SHORT_TENSOR_BYTES if one.ahead else mesh.longest_fixed(peer)
