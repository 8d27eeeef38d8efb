"""The kernels at every level that this processor runs, beside the slowest, one thread.

Needs an installation that has them all: a wheel of `make wheel`. docs/reference/processors.md shows
the records of all processors.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
from benchmarks.measure import Row, interleaved, rate, words

from tacit.kernels import conv2d, matmul, stream
from tacit.kernels.backend import native_replaced
from tacit.kernels.levels import load_level, usable_levels

NUM_BYTES = 1 << 20  # of a stream: it stays in a cache


class Kernels:
    """Those of a level, for `native_replaced`."""

    def __init__(self, native: ModuleType) -> None:
        self._native = native

    def __getattr__(self, name: str) -> Any:
        return getattr(self._native, name)

    def hold(self, tensor: torch.Tensor) -> None:
        """Does nothing: the cases hold their tensors."""


def at(level: str, call: Callable[[], object]) -> Callable[[], object]:
    """The same call with the kernels of a level."""

    def run() -> object:
        native = load_level(level)
        native.set_num_threads(1)
        with native_replaced(Kernels(native)):
            return call()

    return run


def cases() -> dict[str, tuple[int, str, Callable[[], object]]]:
    """Work, its unit in a nanosecond, and a call, by name."""
    a, b = words(512, 512), words(512, 512)
    a32, b32 = words(512, 512, dtype=torch.int32), words(512, 512, dtype=torch.int32)
    small, right = words(32, 100), words(100, 50)
    x, weight = words(1, 64, 56, 56), words(64, 64, 3, 3)
    out = torch.empty(NUM_BYTES // 8, dtype=torch.int64)
    return {
        "matmul 512^3, 64 bits": (512**3, "GMAC/s", lambda: matmul(a, b)),
        "matmul 512^3, 32 bits": (512**3, "GMAC/s", lambda: matmul(a32, b32)),
        "matmul (32,100)x(100,50), 64 bits": (
            32 * 100 * 50,
            "GMAC/s",
            lambda: matmul(small, right),
        ),
        "conv2d (1,64,56,56)x(64,64,3,3), 64 bits": (
            64 * 576 * 3136,
            "GMAC/s",
            lambda: conv2d(x, weight, padding=1),
        ),
        "stream aes128-ctr": (
            NUM_BYTES,
            "GB/s",
            lambda: stream(bytes(16), out, operation=1, cipher="aes128-ctr"),
        ),
        "stream chacha20": (
            NUM_BYTES,
            "GB/s",
            lambda: stream(bytes(32), out, operation=1, cipher="chacha20"),
        ),
    }


def rows() -> list[Row]:
    levels = usable_levels()
    found = []
    for name, (amount, unit, call) in cases().items():
        seconds = interleaved({level: at(level, call) for level in levels})
        found += [
            rate(f"{name}, level {level}", amount, unit, seconds, (level, levels[-1]))
            for level in levels
        ]
    return found
