"""Kernels that are compiled once for each choice of constants and then started without ceremony.

Starting a small kernel takes the time of Triton's look at its arguments. Here nothing depends on
their values: integers are 64 bits wide, no pointer is taken to be aligned, and one compiled kernel
serves every call with the same dtypes and constants, straight away.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager, nullcontext
from threading import Lock
from typing import Any

import torch
import triton
from triton.runtime.jit import JITFunction

Grid = tuple[int, int, int]

# Without the ceremony of torch.cuda's functions of the like names.
_current_device: Callable[[], int] = getattr(torch._C, "_cuda_getDevice", lambda: -1)
_current_stream: Callable[[int], int] = getattr(torch._C, "_cuda_getCurrentRawStream", lambda _: 0)

_first_call = Lock()  # the parties of a process may be threads, and compile one after the other


class Kernel:
    """A Triton function of pointers, then integers marked tl.int64, then tl.constexpr constants."""

    def __init__(self, function: Callable[..., None], num_warps: int) -> None:
        parameters = inspect.signature(function).parameters.values()
        kinds = [(p.name, _kind(p.annotation)) for p in parameters]
        pointers = [name for name, kind in kinds if kind == "pointer"]
        integers = [name for name, kind in kinds if kind == "integer"]
        self.function = triton.jit(
            function,
            do_not_specialize=integers,
            do_not_specialize_on_alignment=pointers,
        )
        self._num_pointers, self._num_warps = len(pointers), num_warps
        self._is_compiled = isinstance(self.function, JITFunction)
        self._ready: dict[Hashable, Any] = {}

    def __call__(self, grid: Grid, arguments: tuple[Any, ...], constants: tuple[Any, ...]) -> None:
        """Starts the kernel on the current stream of the device that holds the first argument."""
        device = arguments[0].device
        dtypes = [pointer.dtype for pointer in arguments[: self._num_pointers]]
        key = (constants, device.index, *dtypes)
        if ready := self._ready.get(key):
            start(ready, device, grid, arguments + constants)
        else:
            self._first(key, device, grid, arguments + constants)

    def _first(
        self, key: Hashable, device: torch.device, grid: Grid, arguments: tuple[Any, ...]
    ) -> None:
        """Triton's own way, which compiles; what it made is kept, unless it is interpreted."""
        with _first_call, on(device):
            made = self.function[grid](*arguments, num_warps=self._num_warps)
            if self._is_compiled:
                self._ready[key] = Ready(made)


class Ready:
    """A compiled kernel, and what starting it takes."""

    __slots__ = ("function", "metadata", "run")

    def __init__(self, made: Any) -> None:
        self.run, self.function, self.metadata = made.run, made.function, made.packed_metadata


def start(ready: Ready, device: torch.device, grid: Grid, arguments: tuple[Any, ...]) -> None:
    """Queues a compiled kernel on the current stream of a device, without hooks of profilers."""
    index = device.index
    if _current_device() != index:
        with torch.cuda.device(device):
            return start(ready, device, grid, arguments)
    stream = _current_stream(index)
    return ready.run(*grid, stream, ready.function, ready.metadata, None, None, None, *arguments)


def kernel(num_warps: int = 4) -> Callable[[Callable[..., None]], Kernel]:
    """A decorator that makes a `Kernel`."""
    return lambda function: Kernel(function, num_warps)


def blocks(count: int, size: int) -> int:
    """How many blocks of this size hold so many elements."""
    return -(-count // size)


def signed(number: int) -> int:
    """The 64-bit integer that has the bits of 0 <= number < 2^64."""
    return number - (1 << 64) if number >> 63 else number


def _kind(annotation: Any) -> str:
    if annotation is inspect.Parameter.empty:
        return "pointer"
    return "constant" if "constexpr" in str(annotation) else "integer"


def on(device: torch.device) -> AbstractContextManager[Any]:
    """Makes the device current, where there is one."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()
