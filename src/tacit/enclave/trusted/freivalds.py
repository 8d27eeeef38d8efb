"""Freivalds' check of a product c = a ⊗ b: both sides are contracted with a random vector.

Every product has an axis that one operand and the result have, such as the columns of a matrix or
the images of a batch: op(s · a, b) = s · c for each vector s along it. The left side costs one
product with an operand of a few rows, instead of all of them.

The check is done mod the prime p = 2^61 - 1. Let d be the error of a wrong result, so that d is not
zero somewhere. All true and claimed values are at most `bound` < p/2 in absolute value (a result
beyond it is refused), so d is not zero mod p. Then s · d is zero for at most one value of the
element of s that meets it. Elements of s are 61 uniform bits, of which two patterns are zero mod p:
the probability is at most 2^-60 for each vector. It does not depend on the form of the error, such
as powers of two, which a check mod 2^64 would miss. s is fresh for each check, and nobody but the
enclave knows it.

Exact integers: s · c and op(s · a, b) are computed with limbs of `LIMB` bits and int64 kernels. No
sum of products exceeds 2^63.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ... import kernels
from ...protocols.products.bilinear import (
    Bilinear,
    Conv,
    ConvGradInput,
    ConvGradWeight,
    MatMul,
)

PRIME_BITS = 61
PRIME = (1 << PRIME_BITS) - 1
BITS_PER_VECTOR = 60  # the check misses an error with a probability of at most 2^-60
LIMB = 21
NUM_LIMBS = -(-PRIME_BITS // LIMB)
LIMB_MASK = (1 << LIMB) - 1
MOST_ROWS = 1024  # that are added up at a time

Draw = Callable[[Tensor], Tensor]  # fills an int64 tensor with uniform words


@dataclass(frozen=True)
class Axis:
    """An axis that one operand and the result have: each of them as (dimension, groups).

    A dimension of channels consists of groups, and a vector lies along each group.
    """

    operand: tuple[int, int]
    result: tuple[int, int]


def agrees(op: Bilinear, a: Tensor, b: Tensor, c: Tensor, bound: int, draw: Draw) -> bool:
    """Returns whether c = op(a, b) in the integers, up to a probability of 2^-60 for a wrong c.

    a, b, c: ring tensors read as signed. The caller has proved |op(a, b)| < bound < p / 2.
    """
    if not _is_bounded(c, bound):
        return False
    axis, of_left = _longest(op, a, b)
    long = a if of_left else b
    s = draw(torch.empty(_length(long, axis), dtype=torch.int64)) & PRIME
    rows = _onto(_limbs(_contract(long, axis.operand, s)), axis.operand)
    pair = (rows, b.long()) if of_left else (a.long(), rows)
    expected = _joined(_along(_resized(op, axis)(*pair), axis.result))
    return torch.equal(expected, _contract(c, axis.result, s))


def _is_bounded(c: Tensor, bound: int) -> bool:
    if c.dtype == torch.int32:
        return True
    low, high = torch.aminmax(c)
    return -bound < int(low) and int(high) < bound


def _longest(op: Bilinear, a: Tensor, b: Tensor) -> tuple[Axis, bool]:
    """Returns the longer of the axes that the operands have, and whether it is the left one's."""
    left, right = _axes(op)
    of_left = _length(a, left) >= _length(b, right)
    return (left if of_left else right), of_left


def _axes(op: Bilinear) -> tuple[Axis, Axis]:
    """Returns the axis that the left operand has in common with the result, and the right one's."""
    if isinstance(op, MatMul):
        return Axis((-2, 1), (-2, 1)), Axis((-1, 1), (-1, 1))
    assert isinstance(op, Conv | ConvGradInput | ConvGradWeight)
    groups = op.window.groups
    if isinstance(op, Conv):  # images, output channels
        return Axis((0, 1), (0, 1)), Axis((0, groups), (1, groups))
    if isinstance(op, ConvGradInput):  # input channels, images
        return Axis((1, 1), (1, groups)), Axis((0, 1), (0, 1))
    return Axis((1, groups), (1, 1)), Axis((1, groups), (0, groups))  # input, output channels


def _length(operand: Tensor, axis: Axis) -> int:
    dim, groups = axis.operand
    return operand.shape[dim] // groups


def _along(x: Tensor, place: tuple[int, int]) -> Tensor:
    """Returns x with an axis first; the groups stay at its dimension."""
    dim, groups = place[0] % x.dim(), place[1]
    return x.unflatten(dim, (groups, x.shape[dim] // groups)).movedim(dim + 1, 0)


def _onto(x: Tensor, place: tuple[int, int]) -> Tensor:
    """Returns x with its first dimension as an axis: the inverse of `_along`."""
    dim = place[0] % (x.dim() - 1)
    return x.movedim(0, dim + 1).flatten(dim, dim + 1)


def _resized(op: Bilinear, axis: Axis) -> Bilinear:
    """Returns the operation for an operand with limbs along an axis."""
    dim, groups = axis.result
    if isinstance(op, ConvGradInput):
        return replace(op, input_shape=_with(op.input_shape, dim, groups * NUM_LIMBS))
    if isinstance(op, ConvGradWeight):
        return replace(op, weight_shape=_with(op.weight_shape, dim, groups * NUM_LIMBS))
    return op


def _with(shape: tuple[int, ...], dim: int, size: int) -> tuple[int, ...]:
    return (*shape[:dim], size, *shape[dim + 1 :])


def _contract(x: Tensor, place: tuple[int, int], s: Tensor) -> Tensor:
    """Returns the sum of s times x along an axis, mod p, in [0, p)."""
    rows = _along(x, place)
    total = torch.zeros(rows.shape[1:], dtype=torch.int64, device=x.device)
    for part, factors in zip(rows.split(MOST_ROWS), s.split(MOST_ROWS), strict=True):
        left, right = _limbs(factors), part.reshape(len(factors), -1)
        # int32 needs no limbs: 2^31 times a limb, of all rows of a part, is at most 2^62.
        pieces = [right.long()] if x.dtype == torch.int32 else list(_limbs(right))
        sums = [_joined(kernels.matmul(left, piece)) for piece in pieces]
        total = (total + _joined(torch.stack(sums)).view_as(total)) % PRIME
    return total


def _limbs(x: Tensor) -> Tensor:
    """Returns limbs of int64 numbers below 2^62, the lowest first; only the highest is signed."""
    highest = x >> LIMB * (NUM_LIMBS - 1)
    return torch.stack([*(x >> LIMB * i & LIMB_MASK for i in range(NUM_LIMBS - 1)), highest])


def _joined(limbs: Tensor) -> Tensor:
    """Returns the sum of 2^(21 i) times limb i, mod p, in [0, p)."""
    total = torch.zeros_like(limbs[0])
    for i, limb in enumerate(limbs % PRIME):
        shift = LIMB * i  # 2^61 = 1 mod p: a product with a power of two is a rotation
        total = (total + (limb << shift & PRIME) + (limb >> PRIME_BITS - shift)) % PRIME
    return total
