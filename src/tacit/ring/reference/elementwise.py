"""Elementwise ring operations as torch has them: its integers wrap, its shift is arithmetic."""

from __future__ import annotations

from torch import Tensor


def add(a: Tensor, b: Tensor) -> Tensor:
    """Returns a + b."""
    return a + b


def sub(a: Tensor, b: Tensor) -> Tensor:
    """Returns a - b."""
    return a - b


def neg(x: Tensor) -> Tensor:
    """Returns -x."""
    return -x


def mul(a: Tensor, b: Tensor) -> Tensor:
    """Returns a * b."""
    return a * b


def mul_add(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """Returns a * b + c."""
    return a * b + c


def truncate(x: Tensor, bits: int) -> Tensor:
    """Returns floor(x / 2^bits) of the signed value."""
    return x >> bits
