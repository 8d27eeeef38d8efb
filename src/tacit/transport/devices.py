"""Messages from and to the memory of GPUs.

Work on a GPU is queued in streams. A tensor that is handed to another thread comes with an event,
and the stream of the receiver waits for it: no host waits. To the network tensors go through pinned
memory, so that copying, sending and computing overlap.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

import torch
from torch import Tensor

CPU = torch.device("cpu")

_known = threading.local()  # the stream that this thread had last


def _stream(device: torch.device) -> torch.cuda.Stream:
    """torch.cuda.current_stream, which takes its time, as long as it is the one of last time."""
    last: torch.cuda.Stream | None = getattr(_known, "stream", None)
    number = torch._C._cuda_getCurrentRawStream(device.index)
    if last is None or last.cuda_stream != number or last.device != device:
        last = _known.stream = torch.cuda.current_stream(device)
    return last


class Ready:
    """The moment when tensors that were queued on this thread's stream are complete."""

    __slots__ = ("_event",)

    def __init__(self, device: torch.device) -> None:
        self._event = torch.cuda.Event()
        self._event.record(_stream(device))

    def await_on(self, stream: torch.cuda.Stream) -> None:
        self._event.wait(stream)

    def wait(self) -> None:
        self._event.synchronize()


def ready(tensors: Sequence[Tensor]) -> Ready | None:
    """When the tensors are complete; None if they are."""
    for tensor in tensors:
        if tensor.is_cuda:
            return Ready(tensor.device)
    return None


def handed_over(
    tensors: Sequence[Tensor], when: Ready | None, device: torch.device
) -> list[Tensor]:
    """The tensors of another thread of this process, on `device`, for use by this thread."""
    if when is None and device.type == "cpu":
        return list(tensors)
    if when is not None and device.type == "cpu":
        when.wait()
        return [tensor.cpu() for tensor in tensors]
    stream = _stream(device)
    if when is not None:
        when.await_on(stream)
    taken = []
    for tensor in tensors:
        if tensor.is_cuda:
            tensor.record_stream(stream)  # its memory is not given away before this stream is done
        taken.append(tensor.to(device))  # from the host it waits: nobody keeps that memory
    return taken


def on_host(tensor: Tensor) -> Tensor:
    """A contiguous copy in pinned memory, complete when `ready` says so of the tensor."""
    host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
    return host.copy_(tensor.detach(), non_blocking=True)


def fetched(tensor: Tensor) -> Tensor:
    """The tensor in the host's memory, complete: pinned, which a GPU writes to itself."""
    if not tensor.is_cuda:
        return tensor
    host = on_host(tensor)
    Ready(tensor.device).wait()
    return host


def room(shape: Sequence[int], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Memory to receive in, for a tensor that goes to `device`."""
    return torch.empty(tuple(shape), dtype=dtype, pin_memory=device.type == "cuda")


def arrived(tensors: Sequence[Tensor], device: torch.device) -> list[Tensor]:
    """Received tensors on `device`."""
    if device.type == "cpu":
        return list(tensors)
    return [tensor.to(device, non_blocking=True) for tensor in tensors]
