"""Launches kernels on a pretended GPU, compiled ahead or by Triton's launch: run as a program.

Its argument is the compute capability, such as 90. Triton binds arguments and computes the keys of
its caches as on a GPU; only its compiler and the driver are pretended. Each kernel is launched
without the queue, then compiled by the queue from its specification alone, then launched again.
Prints a line for each: "same" if both compiled it under one key, on disk, and the second launch
found it in memory; else "other".
"""

from __future__ import annotations

import sys
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import torch
import triton.compiler
from tests.kernels import compile_gpu
from triton._C.libtriton import get_cache_invalidating_env_vars
from triton.backends.compiler import GPUTarget
from triton.runtime.cache import get_cache_key
from triton.runtime.driver import driver

from tacit.kernels.gpu import compile_queue, jit
from tacit.kernels.gpu.specifications import (
    COMMON,
    Specification,
    line,
    listed,
    specification,
)


class PretendedDriver:
    """A driver of a GPU that has no memory and runs nothing."""

    target = GPUTarget("cuda", 90, 32)

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0

    def get_current_target(self) -> GPUTarget:
        return self.target

    def launcher_cls(self, source: Any, metadata: Any) -> Any:
        return lambda *arguments: None


def pretended_compile(source: Any, target: GPUTarget, options: dict[str, Any]) -> Any:
    """Keeps Triton's key for a kernel instead of compiling it."""
    backend = triton.compiler.make_backend(target)
    environment = get_cache_invalidating_env_vars()
    key = get_cache_key(source, backend, backend.parse_options(options), environment)
    keys.append(key)
    return SimpleNamespace(
        src=source,
        metadata=None,
        run=lambda *arguments: None,
        function=None,
        packed_metadata=None,
        launch_metadata=lambda *arguments: None,
    )


def launched_by_triton(function: Any, device: Any, grid: Any, *rest: Any) -> Any:
    """Takes the place of `_launch_first`: Triton alone, with the arguments of the launch."""
    arguments, constants, dtypes, options = rest
    made = function[grid](*arguments, *constants, **options)
    integers = len(arguments) - len(dtypes)
    wanted[specification(function, dtypes, integers, constants, options)] = keys[-1]
    return made


keys: list[str] = []
wanted: dict[Specification, str] = {}


def pretend() -> None:
    """Lets every launch of a kernel note what it needs in `wanted`, and do nothing else."""
    driver.set_active(PretendedDriver())
    triton.compiler.compile = pretended_compile
    torch.cuda.device = nullcontext
    jit._queue = lambda *_: None
    jit._launch_first = launched_by_triton


def launched(one: Specification) -> None:
    """Launches a kernel with tensors of its own."""
    tensors = [torch.empty(64, dtype=getattr(torch, dtype)) for dtype in one.dtypes]
    arguments = (*tensors, *[3] * one.integers, *one.constants)
    one.function()[(1, 1, 1)](*arguments, **dict(one.options))


def main() -> None:
    pretend()
    for name in ("products", "planes", "streams", "leaves", "gates", "injection", "floats"):
        getattr(compile_gpu, f"call_{name}")()
    for one in listed(COMMON):
        launched(one)
        wanted.setdefault(one, keys[-1])
    for one, key in wanted.items():
        one.function().device_caches.clear()
        keys.clear()
        compile_queue.CompileQueue(0, None).finish(one)
        ahead = keys[:]
        launched(one)
        print("same" if ahead == [key] == keys else "other", line(one), end="")


if __name__ == "__main__":
    PretendedDriver.target = GPUTarget("cuda", int(sys.argv[1]), 32)
    main()
