"""Products that add up too many terms for the ring, as sums of pieces that do not.

A piece takes some of the terms of each sum: a range of the inner dimension of matrices, or some of
the images of a weight's gradient. Workers cut operands that they have, so that each is sent once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from torch import Tensor

from ..errors import ConfigError, RangeError
from ..protocols.products.bilinear import Bilinear, ConvGradWeight, MatMul, Pair


@dataclass(frozen=True)
class Piece(Bilinear):
    """An operation on `count` elements of the inner dimension of its operands, from `start` on."""

    op: Bilinear
    start: int
    count: int

    def __post_init__(self) -> None:
        if not isinstance(self.op, MatMul | ConvGradWeight):
            limit = "products of matrices and gradients of weights are"
            raise ConfigError(f"{type(self.op).__name__} is not cut into pieces", limit=limit)

    @property
    def dims(self) -> tuple[int, int]:
        """The inner dimension of the left operand, and of the right one."""
        return (-1, -2) if isinstance(self.op, MatMul) else (0, 0)

    def cut(self, a: Tensor, b: Tensor) -> Pair:
        """Returns the parts of two operands that the piece takes."""
        (left, right), where = self.dims, (self.start, self.count)
        return a.narrow(left, *where), b.narrow(right, *where)

    def __call__(self, a: Tensor, b: Tensor) -> Tensor:
        return self.op(*self.cut(a, b))

    def sum(self, pairs: Sequence[Pair]) -> Tensor:
        return self.op.sum([self.cut(*pair) for pair in pairs])

    def shape(self, a: Sequence[int], b: Sequence[int]) -> tuple[int, ...]:
        left, right = self.dims
        inner = min(a[left], b[right])
        if not (0 < self.count <= inner and 0 <= self.start <= inner - self.count):
            what = f"elements {self.start} to {self.start + self.count}"
            raise ConfigError(what, limit=f"the inner dimension has {inner}")
        return self.op.shape(a, b)

    def terms(self, a: Sequence[int], b: Sequence[int]) -> int:
        return self.op.terms(a, b) // a[self.dims[0]] * self.count


def pieces(op: Bilinear, a: Sequence[int], b: Sequence[int], most_terms: int) -> list[Bilinear]:
    """Returns operations that add up at most so many terms each, and whose sum is `op`.

    Which ones these are depends on the shapes of the operands alone.
    """
    terms = op.terms(a, b)
    if terms <= most_terms:
        return [op]
    size = most_terms if isinstance(op, MatMul) else most_terms // prod(b[2:])
    if not isinstance(op, MatMul | ConvGradWeight) or not size:
        raise RangeError(
            f"{type(op).__name__} of {tuple(a)} and {tuple(b)} adds up {terms} products",
            limit=f"the ring holds {most_terms}",
            remedy="use a smaller kernel or fewer channels",
        )
    inner = a[-1] if isinstance(op, MatMul) else a[0]
    return [Piece(op, i, min(size, inner - i)) for i in range(0, inner, size)]
