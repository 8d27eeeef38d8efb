"""The dtypes and shapes that torch gives results."""

from __future__ import annotations

from functools import lru_cache, reduce
from typing import Any

import torch
from torch import Tensor

from .value import Operand, Value


def result_dtype(*operands: Operand) -> torch.dtype:
    """The dtype that torch gives the result of these operands."""
    return _promoted(*[_kind(x) for x in operands])


def _kind(x: Operand) -> tuple[torch.dtype, bool] | type:
    """All of an operand that matters: its dtype and whether it has dimensions, or its type."""
    if isinstance(x, Value | Tensor):
        return x.dtype, len(x.shape) > 0
    return type(x)


@lru_cache(maxsize=1024)
def _promoted(*kinds: Any) -> torch.dtype:
    result: Tensor | float = reduce(_joined, map(_example, kinds))
    return result.dtype if isinstance(result, Tensor) else torch.tensor(result).dtype


def _example(kind: Any) -> Tensor | float:
    if isinstance(kind, type):
        return kind(1)
    dtype, wide = kind
    return torch.empty((1,) * wide, dtype=dtype, device="meta")


def _joined(a: Tensor | float, b: Tensor | float) -> Tensor:
    dim = max((x.dim() for x in (a, b) if isinstance(x, Tensor)), default=0)
    return torch.empty((1,) * dim, dtype=torch.result_type(a, b), device="meta")
