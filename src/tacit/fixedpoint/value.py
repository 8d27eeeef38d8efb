"""A secret with the meaning that its dtype gives it."""

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
    """A share read as real numbers, integers or truth values.

    A floating dtype means fixed point: integers that stand for multiples of 2^-fraction_bits, where
    the fraction bits are those of the session. An integer dtype means the integers themselves, and
    bool means bits; then the share is a `Bool`.
    known: the numbers themselves, where they are public (zeros, ones, a dropout's mask).
    """

    share: Arith | Bool
    dtype: torch.dtype
    kept: dict[str, Value] = field(default_factory=dict, repr=False, compare=False)
    known: Tensor | None = field(default=None, repr=False, compare=False)

    def keep(self, **others: Value) -> Value:
        """The same value, with others beside it that a later operation (a gradient) asks for."""
        return Value(self.share, self.dtype, {**self.kept, **others}, self.known)

    @property
    def shape(self) -> torch.Size:
        return self.share.shape

    @property
    def is_real(self) -> bool:
        return self.dtype.is_floating_point

    @property
    def is_bit(self) -> bool:
        return isinstance(self.share, Bool)

    @property
    def arith(self) -> Arith:
        assert isinstance(self.share, Arith)
        return self.share

    @property
    def bits(self) -> Bool:
        assert isinstance(self.share, Bool)
        return self.share

    def map(self, change: Callable[[Tensor], Tensor]) -> Value:
        """The value after a change of shape, given as a function of a tensor of its shape."""
        known = None if self.known is None else change(self.known)
        if isinstance(self.share, Arith):
            return Value(self.share.map(change), self.dtype, known=known)
        bits = self.share.map(lambda bits: change(bits[0]).unsqueeze(0))
        return Value(bits, self.dtype, known=known)

    def map_list(self, change: Callable[[Tensor], Sequence[Tensor]]) -> list[Value]:
        """The same for a function that gives several tensors."""
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


# What an operation takes: a secret, or something public.
Operand = Value | Tensor | float | int | bool


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
