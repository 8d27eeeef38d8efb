"""A secret together with its dtype, which says how to read it; and the dtypes of results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, reduce
from typing import Any

import torch
from torch import Tensor

from ..protocols import Arith, Bool


@dataclass(frozen=True)
class Value:
    """A share that holds real numbers, integers or truth values.

    share: an `Arith` for numbers. With a floating dtype its integers are fixed-point numbers of the
        session's fraction bits; with an integer dtype they are the integers themselves. A `Bool`
        for truth values.
    saved: other values that a later operation, such as a gradient, needs.
    known: the numbers themselves, if they are public (zeros, ones, a dropout mask).
    """

    share: Arith | Bool
    dtype: torch.dtype
    saved: dict[str, Value] = field(default_factory=dict, repr=False, compare=False)
    known: Tensor | None = field(default=None, repr=False, compare=False)

    def with_saved(self, **others: Value) -> Value:
        """Returns the same value with other values beside it, by name."""
        return Value(self.share, self.dtype, {**self.saved, **others}, self.known)

    @property
    def shape(self) -> torch.Size:
        """The shape of the tensor."""
        return self.share.shape

    @property
    def is_real(self) -> bool:
        """Whether these are fixed-point numbers."""
        return self.dtype.is_floating_point

    @property
    def is_bit(self) -> bool:
        """Whether these are truth values."""
        return isinstance(self.share, Bool)

    @property
    def arith(self) -> Arith:
        """The share of numbers."""
        assert isinstance(self.share, Arith)
        return self.share

    @property
    def bits(self) -> Bool:
        """The share of truth values."""
        assert isinstance(self.share, Bool)
        return self.share

    def map(self, change: Callable[[Tensor], Tensor]) -> Value:
        """Returns the value with its elements moved; `change` does the same to a tensor. Local."""
        known = None if self.known is None else change(self.known)
        if isinstance(self.share, Arith):
            return Value(self.share.map(change), self.dtype, known=known)
        bits = self.share.map(lambda bits: change(bits[0]).unsqueeze(0))
        return Value(bits, self.dtype, known=known)

    def map_list(self, change: Callable[[Tensor], Sequence[Tensor]]) -> list[Value]:
        """Returns the values that a function of several results, such as `torch.split`, gives."""
        if isinstance(self.share, Arith):
            share = self.share
            columns = {i: change(part) for i, part in share.parts.items()}
            rows = zip(*columns.values(), strict=True)
            shares = [share.with_parts(dict(zip(columns, row, strict=True))) for row in rows]
            knowns = [None] * len(shares) if self.known is None else change(self.known)
            pairs = zip(shares, knowns, strict=True)
            return [Value(share, self.dtype, known=known) for share, known in pairs]
        count = len(change(torch.empty(self.shape, device="meta")))
        return [self.map(lambda part, i=i: change(part)[i]) for i in range(count)]  # type: ignore[misc]


# What an operation takes: a secret, or public numbers.
Operand = Value | Tensor | float | int | bool


def result_dtype(*operands: Operand) -> torch.dtype:
    """Returns the dtype that torch gives the result of these operands."""
    return _promoted(*[_kind(x) for x in operands])


def _kind(x: Operand) -> tuple[torch.dtype, bool] | type:
    """Returns what decides the dtype: a tensor's dtype and whether it has dimensions, or a type."""
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
