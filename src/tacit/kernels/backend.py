"""Chooses an implementation: compiled code on a CPU, Triton on a GPU, else the reference.

The environment variable `TACIT_KERNELS`, read at the first call, forces one of them: `reference`,
or `triton` for tensors of any device, which without a GPU needs Triton's interpreter
(TRITON_INTERPRET=1), or a level of the compiled code by its name (kernels/levels.py), where the
fastest that the processor runs is the default. If the compiled code or Triton is missing, the
reference runs and one warning says so.
"""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any, cast

import torch

from ..errors import ConfigError
from .levels import best_level, check_level, known_levels, load_level

VARIABLE = "TACIT_KERNELS"
CHOICES = ("auto", "reference", "triton")  # or the name of a level

_thread = threading.local()


@cache
def choice() -> str:
    """Returns the value of `TACIT_KERNELS`: one of `CHOICES`, or a level of this architecture."""
    chosen = os.environ.get(VARIABLE, "auto")
    if chosen in CHOICES:
        return chosen
    try:
        known = list(known_levels())
    except ImportError:  # nothing is compiled
        known = []
    if chosen in known:
        return chosen
    raise ConfigError(
        f"{VARIABLE}={chosen!r}", limit=f"allowed are {', '.join([*CHOICES, *known])}"
    )


def load_native() -> ModuleType | None:
    """Returns the compiled kernels, or None if they are missing or `reference` is forced."""
    return getattr(_thread, "native", None) or compiled()


@contextmanager
def native_replaced(native: Any) -> Iterator[None]:
    """In the block, this thread calls the functions of `native` in place of the compiled ones.

    Its `hold` is told of each tensor whose address they get.
    """
    _thread.native = cast(ModuleType, native)
    try:
        yield
    finally:
        _thread.native = None


def address(tensor: torch.Tensor) -> int:
    """Returns where the memory of a tensor begins: the only way of an address to a kernel.

    A kernel does not hold that memory. Whoever records this thread's calls does.
    """
    if (recorded := getattr(_thread, "native", None)) is not None:
        recorded.hold(tensor)
    return tensor.data_ptr()


@cache
def compiled() -> ModuleType | None:
    """Returns what `load_native` does where nothing replaces it."""
    name = level()
    return load_level(name) if name else None


@cache
def level() -> str | None:
    """Returns the level of the compiled kernels, or None if the reference is used."""
    if choice() == "reference":
        return None
    if choice() not in CHOICES:
        check_level(choice())
        return choice()
    try:
        best = best_level()
        load_level(best)
    except ImportError as error:
        _warn("compiled kernels are", error, "Reinstall with a C++20 compiler to get them.")
        return None
    return best


@cache
def load_gpu() -> ModuleType | None:
    """Returns the Triton kernels, or None if Triton is missing or `reference` is forced."""
    if choice() == "reference":
        return None
    try:
        return import_module(".gpu", __package__)
    except ImportError as error:
        _warn("GPU kernels are", error, "Install triton to get them.")
        return None


def _warn(what: str, error: ImportError, remedy: str) -> None:
    warnings.warn(
        f"tacit: the {what} missing ({error}); the slow reference is used. {remedy}",
        RuntimeWarning,
        stacklevel=3,
    )


def native_for(*tensors: torch.Tensor) -> ModuleType | None:
    """Returns the compiled kernels if all tensors are on the CPU, else None."""
    for tensor in tensors:
        if not tensor.is_cpu:
            return None
    return load_native()


def gpu_for(*tensors: torch.Tensor) -> ModuleType | None:
    """Returns the Triton kernels if all tensors are on a GPU or `triton` is forced, else None."""
    for tensor in tensors:
        if not tensor.is_cuda:
            return load_gpu() if choice() == "triton" else None
    return load_gpu()


def compile_ahead(device: torch.device) -> None:
    """Lets threads compile what a session on this GPU is likely to need; returns at once."""
    if device.type == "cuda" and (gpu := load_gpu()) is not None:
        gpu.queue_of(device)


def num_compiled(device: torch.device) -> tuple[int, int]:
    """Returns how many kernels of a GPU are compiled, and of how many that are needed or listed."""
    gpu = load_gpu() if device.type == "cuda" else None
    return (0, 0) if gpu is None else gpu.queue_of(device).progress()


def num_threads() -> int:
    """Returns how many threads one kernel call uses."""
    native = load_native()
    return native.num_threads() if native else torch.get_num_threads()


def features() -> tuple[str, ...]:
    """Returns the processor instructions that the compiled kernels use, such as VNNI and AES."""
    native = load_native()
    found = native.features.split() if native else ()
    return tuple(name for name in found if name != "AMX" or level() == "amx")


def set_num_threads(count: int) -> None:
    """Sets how many threads one compiled kernel call uses, for the whole process."""
    if count < 1:
        raise ConfigError(f"num_threads={count}", limit="at least 1 is needed")
    if native := load_native():
        native.set_num_threads(count)


def set_kept_scratch(size: int) -> None:
    """Lets compiled kernels keep scratch memory between calls only if it has at most `size` bytes.

    For the whole process; each thread has some. By default it is 64 MiB for each use of it.
    """
    if keep := getattr(load_native(), "keep_scratch", None):
        keep(size)
