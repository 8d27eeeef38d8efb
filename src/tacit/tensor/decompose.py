"""Operations made of others: torch's own decompositions, where they are right on secrets."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch._decomp import decomposition_table
from torch._ops import OpOverload

aten = torch.ops.aten

# Checked on secrets against plain runs by tests/tensor/test_operators.py. A decomposition that asks
# for values, or leaves the range of fixed point, has no place here: it needs a rule of its own.
DECOMPOSED: set[OpOverload] = set()


def decomposed(*overloads: OpOverload) -> None:
    """Allows torch's decomposition of these operations."""
    DECOMPOSED.update(overloads)


@cache
def decomposition(func: OpOverload) -> Callable[..., Any] | None:
    """How torch makes this operation of others, if that is allowed."""
    if func in DECOMPOSED:
        return decomposition_table[func]
    if torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd"):
        return func.decompose
    return None
