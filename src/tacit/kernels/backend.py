"""Which implementation runs: compiled for the CPU, Triton for a GPU, the reference otherwise.

`TACIT_KERNELS` in the environment, read at the first call, forces one: `reference`, or `triton` on
tensors of any device, which without a GPU needs Triton's interpreter (TRITON_INTERPRET=1). Where
the extension or Triton is missing the reference is used, and a warning says so once.
"""

from __future__ import annotations

import os
import warnings
from functools import cache
from importlib import import_module
from types import ModuleType

import torch

from ..errors import ConfigError

VARIABLE = "TACIT_KERNELS"
CHOICES = ("auto", "reference", "triton")


@cache
def choice() -> str:
    """What the environment asks for."""
    chosen = os.environ.get(VARIABLE, "auto")
    if chosen not in CHOICES:
        raise ConfigError(f"{VARIABLE}={chosen!r}: allowed are {', '.join(CHOICES)}")
    return chosen


@cache
def load_native() -> ModuleType | None:
    """The compiled kernels, or None if they are missing or not wanted."""
    if choice() == "reference":
        return None
    return _load(".native", "compiled kernels are", "Reinstall with a C++20 compiler to get them.")


@cache
def load_gpu() -> ModuleType | None:
    """The kernels for GPUs, or None if Triton is missing or not wanted."""
    if choice() == "reference":
        return None
    return _load(".gpu", "GPU kernels are", "Install triton to get them.")


def _load(name: str, what: str, remedy: str) -> ModuleType | None:
    try:
        return import_module(name, __package__)
    except ImportError as error:
        warnings.warn(
            f"tacit: the {what} missing ({error}); the slow reference is used. {remedy}",
            RuntimeWarning,
            stacklevel=3,
        )
        return None


def native_for(*tensors: torch.Tensor) -> ModuleType | None:
    """The compiled kernels if they serve these tensors, else None."""
    for tensor in tensors:
        if not tensor.is_cpu:
            return None
    return load_native()


def gpu_for(*tensors: torch.Tensor) -> ModuleType | None:
    """The GPU kernels if they serve these tensors, else None."""
    for tensor in tensors:
        if not tensor.is_cuda:
            return load_gpu() if choice() == "triton" else None
    return load_gpu()


def num_threads() -> int:
    """How many threads a kernel uses."""
    native = load_native()
    return native.num_threads() if native else torch.get_num_threads()


def features() -> tuple[str, ...]:
    """The instructions of the processor that the compiled kernels were built with."""
    native = load_native()
    return tuple(native.features.split()) if native else ()


def set_num_threads(count: int) -> None:
    """Lets each compiled kernel use `count` threads; the setting is of the whole process."""
    if count < 1:
        raise ConfigError(f"num_threads={count}: at least 1 is needed")
    if native := load_native():
        native.set_num_threads(count)
