"""Sorting one tensor by another, as one operation; torch has none.

torch sorts and gathers by the indices. A secret index is compared with every place, so that costs
the square of the size; here the elements move together with their keys.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ....fixedpoint import Numbers, Value
from ...operand import Array
from ...table import implements

_library = torch.library.Library("tacit", "FRAGMENT")
_library.define(
    "sort_by(Tensor key, Tensor input, int dim=-1, bool descending=False) -> (Tensor, Tensor)"
)
_library.impl("sort_by", torch.library.fallthrough_kernel, "AutogradPrivateUse3")
SORT_BY = torch.ops.tacit.sort_by.default


@implements(SORT_BY)
def sort_by(
    n: Numbers, key: Array, input: Array, dim: int = -1, descending: bool = False
) -> tuple[Value, Value]:
    """The keys in order, and the elements beside them; equal keys come in any order."""
    return n.sort_by(n.operand(key), n.operand(input), dim, descending=descending)


def plain_sort_by(
    key: Tensor, input: Tensor, dim: int = -1, descending: bool = False
) -> tuple[Tensor, Tensor]:
    """The same on plain tensors."""
    ordered, places = key.sort(dim=dim, descending=descending, stable=True)
    return ordered, input.take_along_dim(places, dim)


_library.impl("sort_by", plain_sort_by, "CompositeExplicitAutograd")
