"""Messages from and to the memory of GPUs.

Work on a GPU is queued in streams. A tensor that one thread hands to another comes with an event,
and the receiver's stream waits for the event: the host does not wait. Tensors go to the network
through pinned memory, so that copies, transfers and kernels overlap.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

CPU = torch.device("cpu")

_last = threading.local()  # the stream that this thread used last


def _stream(device: torch.device) -> torch.cuda.Stream:
    """Returns torch.cuda.current_stream(device), which is slow, from a cache of one stream."""
    last: torch.cuda.Stream | None = getattr(_last, "stream", None)
    number = torch._C._cuda_getCurrentRawStream(device.index)
    if last is None or last.cuda_stream != number or last.device != device:
        last = _last.stream = torch.cuda.current_stream(device)
    return last


class ReadyEvent:
    """The moment when the tensors queued so far on this thread's stream are complete."""

    __slots__ = ("_event",)

    def __init__(self, device: torch.device) -> None:
        self._event = torch.cuda.Event()
        self._event.record(_stream(device))

    def wait_on(self, stream: torch.cuda.Stream) -> None:
        """Lets a stream wait; the host goes on."""
        self._event.wait(stream)

    def wait(self) -> None:
        """Lets the host wait."""
        self._event.synchronize()


def ready_event(tensors: Sequence[Tensor]) -> ReadyEvent | None:
    """Returns the event after which the tensors are complete; None if all are on the CPU."""
    for tensor in tensors:
        if tensor.is_cuda:
            return ReadyEvent(tensor.device)
    return None


def from_thread(
    tensors: Sequence[Tensor], ready: ReadyEvent | None, device: torch.device
) -> list[Tensor]:
    """Returns another thread's tensors on `device`, for use by this thread."""
    if ready is None and device.type == "cpu":
        return list(tensors)
    if ready is not None and device.type == "cpu":
        ready.wait()
        return [to_host(tensor) for tensor in tensors]
    stream = _stream(device)
    if ready is not None:
        ready.wait_on(stream)
    taken = []
    for tensor in tensors:
        if tensor.is_cuda:
            tensor.record_stream(stream)  # its memory is not reused before this stream is done
        # From ordinary memory it waits: that may be freed next. Pinned memory is kept until then.
        taken.append(tensor.to(device, non_blocking=tensor.is_cuda or tensor.is_pinned()))
    return taken


def to_pinned(tensor: Tensor) -> Tensor:
    """Returns a contiguous copy in pinned memory, complete at the `ready_event` of the tensor.

    Whoever watches this thread's work does not see it: no program reads what is sent.
    """
    with _disable_current_modes():
        host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        return host.copy_(tensor.detach(), non_blocking=True)


def to_host(tensor: Tensor) -> Tensor:
    """Returns the tensor in host memory, complete; from a GPU through pinned memory."""
    if not tensor.is_cuda:
        return tensor
    host = to_pinned(tensor)
    ReadyEvent(tensor.device).wait()
    return host


def empty_for(shape: Sequence[int], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Returns host memory to receive a tensor that goes to `device`."""
    return torch.empty(tuple(shape), dtype=dtype, pin_memory=device.type == "cuda")


def to_device(tensors: Sequence[Tensor], device: torch.device) -> list[Tensor]:
    """Returns received tensors on `device`."""
    if device.type == "cpu":
        return list(tensors)
    return [tensor.to(device, non_blocking=True) for tensor in tensors]
