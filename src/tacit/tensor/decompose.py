"""Operations that torch decomposes into others, where its decomposition is right on secrets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._decomp import decomposition_table
from torch._ops import OpOverload

from .assigned_data import is_compatible
from .table import DECOMPOSED, decomposed

aten = torch.ops.aten

# tests/tensor/test_operators.py checks them on secrets. A decomposition that needs values, leaves
# the fixed-point range, or imports torch._dynamo within the run (as those do that use
# torch._prims_common.wrappers) is not listed: the operation needs a rule.

# Primitives that stand for the ATen operation of the same name.
PRIMS = {
    *("abs", "add", "amax", "amin", "cos", "div", "eq", "exp", "fmod", "ge", "gt", "le", "log"),
    *("lt", "maximum", "minimum", "mul", "ne", "neg", "pow", "reciprocal", "remainder", "rsqrt"),
    *("sign", "signbit", "sin", "sqrt", "sub", "tanh"),
}

COPIES = """
alias_copy diagonal_copy expand_copy narrow_copy permute_copy squeeze_copy squeeze_copy.dim t_copy
split_with_sizes_copy transpose_copy.int unbind_copy.int unfold_copy unsqueeze_copy view_copy
"""
SHAPES = "_unsafe_masked_index _unsafe_masked_index_put_accumulate"
FINITE = "nansum nan_to_num isin.Tensor_Scalar"
FUNCTIONS = """
glu_backward std.correction std_mean.correction renorm multilabel_margin_loss_forward
"""


def decomposition(func: OpOverload) -> Callable[..., Any] | None:
    """Returns torch's decomposition of an operation if it is allowed, else None."""
    if func is aten._has_compatible_shallow_copy_type.default:  # in inference mode: NOTE [own key]
        return is_compatible
    if func in DECOMPOSED:
        return decomposition_table[func]
    if func.namespace == "prims":  # some of torch's decompositions end there
        name = func._schema.name.removeprefix("prims::")
        return getattr(aten, name, None) if name in PRIMS else None
    if torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd"):
        return func.decompose
    return None


def _overload(name: str) -> OpOverload:
    packet, _, overload = name.partition(".")
    return getattr(getattr(aten, packet), overload or "default")


decomposed(*map(_overload, f"{COPIES} {SHAPES} {FINITE} {FUNCTIONS}".split()))
