"""Products of large operands, some pictures, rows or columns at a time.

Local: nobody else can tell.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod

import torch
from torch import Tensor

from .bilinear import Bilinear, Conv, ConvGradInput, ConvGradWeight, MatMul

# A left operand, and the parts whose sum is the right one.
Term = tuple[Tensor, Sequence[Tensor]]
Sum = Callable[[Bilinear, Sequence[Term]], Tensor]

# What an element of an operand or result takes where it is multiplied: itself and its residues.
BYTES = 32

ALIGNED = 128  # columns of a tile of the fastest product


def cut_sum(
    op: Bilinear, terms: Sequence[Term], limit: int | None, total: Sum, *, columns: bool = True
) -> Tensor:
    """total(op, terms), in portions that take about `limit` bytes each.

    columns: also of a matrix at the right, down to those of a tile.
    """
    if limit is None:
        return total(op, terms)
    (_, [b, *_]), *_ = terms
    if not columns or not isinstance(op, MatMul) or b.dim() != 2:
        return _cut_rows(op, terms, limit, total)
    size = limit // 2 * b.shape[1] // max(b.numel() * BYTES * len(terms), 1)
    size = max(size // ALIGNED, 1) * ALIGNED
    if size >= b.shape[1]:
        return _cut_rows(op, terms, limit, total)
    results = []
    for start in range(0, b.shape[1], size):
        some = min(size, b.shape[1] - start)
        fewer = [(a, [b.narrow(-1, start, some) for b in parts]) for a, parts in terms]
        results.append(_cut_rows(op, fewer, limit // 2, total))
    return torch.cat(results, -1)


def _cut_rows(op: Bilinear, terms: Sequence[Term], limit: int, total: Sum) -> Tensor:
    (a, [b, *_]), *_ = terms
    count = _count(op, a, b)
    if count < 2:
        return total(op, terms)
    work = _elements(op, a, b) * BYTES * len(terms)
    size = max(1, count * limit // max(work, 1))
    if size >= count:
        return total(op, terms)
    results = []
    for start in range(0, count, size):
        some = min(size, count - start)
        results.append(total(*_portion(op, terms, start, some)))
    if isinstance(op, ConvGradWeight):
        return sum(results[1:], results[0])
    return torch.cat(results)


def _count(op: Bilinear, a: Tensor, b: Tensor) -> int:
    """Into how many independent rows or pictures the operation falls."""
    if isinstance(op, Conv | ConvGradWeight):
        return a.shape[0]
    if isinstance(op, ConvGradInput):
        return b.shape[0]
    if isinstance(op, MatMul) and a.dim() > 1 and b.dim() == 2:
        return a.shape[0]
    return 1


def _elements(op: Bilinear, a: Tensor, b: Tensor) -> int:
    """Elements of what is cut: the operands with a row for each, and the result."""
    if isinstance(op, Conv):
        return a.numel() + prod(op.window.output_shape(a.shape, b.shape))
    if isinstance(op, ConvGradInput):
        return b.numel() + prod(op.input_shape)
    if isinstance(op, ConvGradWeight):
        return a.numel() + b.numel()
    return a.numel() + a.shape[:-1].numel() * b.shape[-1]


def _portion(
    op: Bilinear, terms: Sequence[Term], start: int, size: int
) -> tuple[Bilinear, list[Term]]:
    if isinstance(op, ConvGradInput):
        fewer = replace(op, input_shape=(size, *op.input_shape[1:]))
        return fewer, [(a, [b.narrow(0, start, size) for b in parts]) for a, parts in terms]
    if isinstance(op, ConvGradWeight):
        return op, [
            (a.narrow(0, start, size), [b.narrow(0, start, size) for b in parts])
            for a, parts in terms
        ]
    return op, [(a.narrow(0, start, size), parts) for a, parts in terms]
