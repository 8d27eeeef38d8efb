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

COPIES = """
alias_copy diagonal_copy expand_copy narrow_copy permute_copy squeeze_copy squeeze_copy.dim t_copy
transpose_copy.int unbind_copy.int unfold_copy unsqueeze_copy view_copy
"""
SHAPES = """
block_diag channel_shuffle diag_embed pixel_shuffle pixel_unshuffle select_scatter tril triu
unbind.int
"""
PRODUCTS = "addcmul addmv addr baddbmm dot vdot mv trace"
FUNCTIONS = """
_prelu_kernel _softmax_backward_data deg2rad hardtanh isneginf isposinf leaky_relu mse_loss
native_dropout_backward rad2deg threshold
"""


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


def _overload(name: str) -> OpOverload:
    packet, _, overload = name.partition(".")
    return getattr(getattr(aten, packet), overload or "default")


decomposed(*(_overload(name) for name in (COPIES + SHAPES + PRODUCTS + FUNCTIONS).split()))
