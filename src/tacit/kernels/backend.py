"""Which implementation runs: the compiled extension where it can, the reference otherwise.

`TACIT_KERNELS=reference` in the environment, read at the first call, forces the reference. A
missing extension falls back to the reference and says so once.
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
CHOICES = ("auto", "reference")


@cache
def load_native() -> ModuleType | None:
    """The compiled kernels, or None if they are missing or not wanted."""
    choice = os.environ.get(VARIABLE, "auto")
    if choice not in CHOICES:
        raise ConfigError(f"{VARIABLE}={choice!r}: allowed are {', '.join(CHOICES)}")
    if choice == "reference":
        return None
    try:
        return import_module(".native", __package__)
    except ImportError as error:
        warnings.warn(
            f"tacit: the compiled kernels are missing ({error}); the slow reference is used. "
            "Reinstall with a C++20 compiler to get them.",
            RuntimeWarning,
            stacklevel=2,
        )
        return None


def native_for(*tensors: torch.Tensor) -> ModuleType | None:
    """The compiled kernels if they serve these tensors, else None for the reference."""
    for tensor in tensors:
        if not tensor.is_cpu:
            return None
    return load_native()


def num_threads() -> int:
    """How many threads a kernel uses."""
    native = load_native()
    return native.num_threads() if native else torch.get_num_threads()


def set_num_threads(count: int) -> None:
    """Lets each compiled kernel use `count` threads; the setting is of the whole process."""
    if count < 1:
        raise ConfigError(f"num_threads={count}: at least 1 is needed")
    if native := load_native():
        native.set_num_threads(count)
