"""Operands of rules: a secret `Value`, or something public."""

from __future__ import annotations

from typing import Any

from torch import Tensor


def number(x: Any) -> float | None:
    """Returns a public number as a float, or None if x is not one."""
    if isinstance(x, bool | int | float):
        return float(x)
    return float(x) if isinstance(x, Tensor) and x.dim() == 0 else None
