"""Launches Triton kernels, which are compiled once, without Triton's checks of the arguments.

At every launch Triton looks at all arguments, because it specializes kernels on the alignment of
pointers and on the values of integers. That takes longer than a small kernel runs. Kernels of this
package do not depend on argument values, so one compiled kernel serves every call with the same
dtypes and constants, and later calls go straight to the driver. Before its first launch a kernel is
compiled by `compile_queue`. There are two kinds:

- `Kernel`, made by the decorator `kernel`: no pointer is assumed to be aligned, integers have 64
  bits, and each operation on floats is rounded by itself. For elementwise kernels, bit planes and
  gates.
- `triton.jit` functions that are started with `launch`: pointers may be assumed to be aligned to 16
  bytes, which tensor cores need. Those are the residues, which this package allocates. The
  functions mark all other pointers, and every integer, as not to be specialized on.

Pointers, integers and tensors are all `tl.tensor` inside a Triton function.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from threading import Lock
from typing import Any

import torch
import triton
from torch import Tensor
from triton.runtime.jit import JITFunction

from ..launches import launch_observer
from .compile_queue import queue_of
from .specifications import specification
from .stores import written_parameters

Grid = tuple[int, int, int]

# Like torch.cuda.current_device and torch.cuda.current_stream, without their argument checks.
_current_device: Callable[[], int] = getattr(torch._C, "_cuda_getDevice", lambda: -1)
_current_stream: Callable[[int], int] = getattr(torch._C, "_cuda_getCurrentRawStream", lambda _: 0)

_launching = Lock()  # Triton's part of a first launch: one thread at a time
_launchable: dict[Hashable, Compiled] = {}  # what `launch` has compiled


class Kernel:
    """A Triton function of pointers (tl.tensor), integers (tl.int64), constants (tl.constexpr).

    The parameters come in this order.
    """

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
        self._num_pointers = len(pointers)
        self._options = {"num_warps": num_warps, "enable_fp_fusion": False}
        self._is_compiled = isinstance(self.function, JITFunction)
        self._compiled: dict[Hashable, Compiled] = {}

    def __call__(self, grid: Grid, arguments: tuple[Any, ...], constants: tuple[Any, ...]) -> None:
        """Queues the kernel on the current stream of the device that holds the first argument."""
        if (observer := launch_observer()) is not None:
            written = _written(self.function, arguments[: self._num_pointers])
            observer.note_launch(self, (grid, arguments, constants), written)
        device = arguments[0].device
        dtypes = [pointer.dtype for pointer in arguments[: self._num_pointers]]
        key = (constants, device.index, *dtypes)
        if compiled := self._compiled.get(key):
            _queue(compiled, device, grid, arguments + constants)
            return
        made = _launch_first(
            self.function, device, grid, arguments, constants, dtypes, self._options
        )
        if self._is_compiled:
            self._compiled[key] = Compiled(made)


def kernel(num_warps: int = 4) -> Callable[[Callable[..., None]], Kernel]:
    """Returns a decorator that makes a `Kernel` of a function."""
    return lambda function: Kernel(function, num_warps)


def launch(
    kernel: Any,
    grid: tuple[int, int],
    tensors: tuple[Tensor, ...],
    integers: tuple[int, ...],
    constants: dict[str, Any],
    **options: int,
) -> None:
    """Queues a `triton.jit` function on the device of its tensors.

    Its parameters are the tensors, the integers and the constants, in this order. The compiled
    kernel is kept, unless an integer needs more than 32 bits: Triton then chooses the types.
    """
    if (observer := launch_observer()) is not None:
        start: Any = partial(launch, kernel, grid, **options)  # type: ignore[arg-type]
        observer.note_launch(start, (tensors, integers, constants), _written(kernel, tensors))
    device = tensors[0].device
    dtypes = [tensor.dtype for tensor in tensors]
    values = constants.values()
    key = (id(kernel), device.index, *dtypes, *values, *options.values())
    is_small = max(integers) >> 31 == 0
    if is_small and (compiled := _launchable.get(key)):
        _queue(compiled, device, (*grid, 1), (*tensors, *integers, *values))
        return
    in_order = tuple(constants[name] for name in kernel.arg_names[-len(constants) :])
    arguments = (*tensors, *integers)
    if not is_small:
        _launch_by_triton(kernel, device, grid, arguments, in_order, options)
        return
    made = _launch_first(kernel, device, grid, arguments, in_order, dtypes, options)
    if isinstance(kernel, JITFunction):
        _launchable[key] = Compiled(made)


def _launch_first(
    function: Any,
    device: torch.device,
    grid: tuple[int, ...],
    arguments: tuple[Any, ...],
    constants: tuple[Any, ...],
    dtypes: list[torch.dtype],
    options: dict[str, Any],
) -> Any:
    """Launches through Triton, after the kernel has been compiled; returns Triton's kernel.

    Triton looks at the arguments: if it specializes on them in another way than `compile_queue`
    did, as for a pointer that is not aligned, it compiles anew.
    """
    if isinstance(function, JITFunction) and device.type == "cuda":
        integers = len(arguments) - len(dtypes)
        wanted = specification(function, dtypes, integers, constants, options)
        queue_of(device).finish(wanted)
    return _launch_by_triton(function, device, grid, arguments, constants, options)


def _launch_by_triton(
    function: Any,
    device: torch.device,
    grid: tuple[int, ...],
    arguments: tuple[Any, ...],
    constants: tuple[Any, ...],
    options: dict[str, Any],
) -> Any:
    """Launches through Triton, which compiles what it does not have; returns Triton's kernel."""
    with _launching, _current(device):
        return function[grid](*arguments, *constants, **options)


class Compiled:
    """A compiled kernel: what the driver needs to launch it."""

    __slots__ = ("function", "metadata", "run")

    def __init__(self, made: Any) -> None:
        self.run, self.function, self.metadata = made.run, made.function, made.packed_metadata


def _queue(
    compiled: Compiled, device: torch.device, grid: Grid, arguments: tuple[Any, ...]
) -> None:
    """Queues a compiled kernel on the current stream of a device, without profiler hooks."""
    index = device.index
    if _current_device() != index:
        with torch.cuda.device(device):
            return _queue(compiled, device, grid, arguments)
    launcher, stream = compiled.run, _current_stream(index)
    return launcher(
        *grid, stream, compiled.function, compiled.metadata, None, None, None, *arguments
    )


def _written(kernel: Any, tensors: tuple[Tensor, ...]) -> list[Tensor]:
    """Returns those of the first arguments of a Triton function, its tensors, that it writes."""
    written = written_parameters(kernel.fn)
    names = inspect.signature(kernel.fn).parameters
    return [x for name, x in zip(names, tensors, strict=False) if name in written]


def blocks(count: int, size: int) -> int:
    """Returns how many blocks of this size hold `count` elements."""
    return -(-count // size)


def signed(number: int) -> int:
    """Returns the signed 64-bit integer that has the bits of 0 <= number < 2^64."""
    return number - (1 << 64) if number >> 63 else number


def _kind(annotation: Any) -> str:
    if annotation is triton.language.tensor:
        return "pointer"
    return "constant" if "constexpr" in str(annotation) else "integer"


def _current(device: torch.device) -> AbstractContextManager[Any]:
    """Makes a GPU the current device; does nothing for a CPU, where Triton interprets."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()
