"""Freivalds' check of a product c = a ⊗ b: both sides are contracted with random vectors.

Every product has an axis that its left operand and the result have, such as the rows of a matrix or
the images of a batch, and one that its right operand and the result have. With random s and t along
them, op(s · a, b · t) = s · c · t. The left side is a product of operands that have lost their long
axes, so that the check costs one pass over a, b and c and little more.

The check is done mod the prime p = 2^61 - 1. Let d be the error of a wrong result, so that d is not
zero somewhere. All true and claimed values are at most `bound` < p / 2 in absolute value (a result
beyond it is refused), so d is not zero mod p. The elements of s and t are uniform in [0, 2^45).
Then d · t is zero everywhere with a probability of at most 2^-45: for all but one value of the
element of t that meets the error, it is not. If it is not zero, s · (d · t) is zero with 2^-45 at
most. A wrong result passes with 2^-44 at most. That does not depend on the form of the error, such
as multiples of a power of two, which a check mod 2^64 would miss. s and t are fresh for each check,
and nobody but the enclave knows them.

All sums are exact integers below 2^63: elements of s and t are limbs of 15 bits, and elements mod p
limbs of 21 bits. An axis of three or fewer elements is not contracted: limbs would be as many.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from ...kernels.contraction import (
    LIMB_BITS,
    MOST_ROWS,
    NUM_LIMBS,
    PRIME,
    contract,
    join_limbs,
)
from ...protocols.products.bilinear import (
    Bilinear,
    Conv,
    ConvGradInput,
    ConvGradWeight,
    MatMul,
)

BITS_PER_CHECK = NUM_LIMBS * LIMB_BITS - 1
WIDE_BITS = 21  # of the limbs of an element mod p; there are three, too
SLICE_ELEMENTS = 1 << 18  # 64-bit integers whose limbs are in memory at a time

Draw = Callable[[Tensor], Tensor]  # fills an int32 tensor with uniform words
Place = tuple[int, int]  # a dimension, and how many groups it consists of


class Axis(NamedTuple):
    """An axis that an operand and the result have. A vector lies along each group of channels."""

    operand: Place
    result: Place


class Contraction(NamedTuple):
    """An axis, and the limbs of a random vector along it."""

    axis: Axis
    limbs: Tensor


def agrees(op: Bilinear, a: Tensor, b: Tensor, c: Tensor, bound: int, draw: Draw) -> bool:
    """Returns whether c = op(a, b) in the integers; a wrong c passes with 2^-44 at most.

    a, b, c: integers, of 8, 32 or 64 bits. The caller has proved |op(a, b)| < bound < p / 2.
    """
    if not _is_bounded(c, bound):
        return False
    left, right = (_contraction(x, axis, draw) for x, axis in zip((a, b), _axes(op), strict=True))
    found = [one for one in (left, right) if one]
    small = _resized(op, [one.axis.result for one in found])
    expected, claimed = small(_shortened(a, left), _shortened(b, right)), c
    for one in sorted(found, key=lambda one: -one.limbs.shape[1]):  # the longest first
        expected = join_limbs(_along(expected, one.axis.result), WIDE_BITS)
        claimed = _contracted(claimed, one.axis.result, one.limbs)
    return torch.equal(expected, claimed.long())


def lengths(op: Bilinear, a: Sequence[int], b: Sequence[int]) -> list[int]:
    """Returns the lengths of the axes of both operands that are contracted; 1 if one is not."""
    axes = zip((a, b), _axes(op), strict=True)
    found = [x[axis.operand[0]] // axis.operand[1] for x, axis in axes]
    return [length if length > NUM_LIMBS else 1 for length in found]


def shortened(
    op: Bilinear, a: Sequence[int], b: Sequence[int]
) -> tuple[Bilinear, tuple[int, ...], tuple[int, ...]]:
    """Returns the product that a check computes: the operation, and the shapes of its operands."""
    (left, right), (m, n) = _axes(op), lengths(op, a, b)
    places = [axis.result for axis, length in ((left, m), (right, n)) if length > 1]
    return _resized(op, places), _with_limbs(a, left, m), _with_limbs(b, right, n)


def _with_limbs(shape: Sequence[int], axis: Axis, length: int) -> tuple[int, ...]:
    dim, groups = axis.operand
    return _with(tuple(shape), dim % len(shape), groups * NUM_LIMBS) if length > 1 else tuple(shape)


def _is_bounded(c: Tensor, bound: int) -> bool:
    if c.dtype == torch.int32:
        return True
    low, high = torch.aminmax(c)
    return -bound < int(low) and int(high) < bound


def _axes(op: Bilinear) -> tuple[Axis, Axis]:
    """Returns the axis that the left operand has in common with the result, and the right one's."""
    if isinstance(op, MatMul):  # rows, columns
        return Axis((-2, 1), (-2, 1)), Axis((-1, 1), (-1, 1))
    assert isinstance(op, Conv | ConvGradInput | ConvGradWeight)
    groups = op.window.groups
    if isinstance(op, Conv):  # images, output channels
        return Axis((0, 1), (0, 1)), Axis((0, groups), (1, groups))
    if isinstance(op, ConvGradInput):  # input channels, images
        return Axis((1, 1), (1, groups)), Axis((0, 1), (0, 1))
    return Axis((1, groups), (1, 1)), Axis((1, groups), (0, groups))  # input, output channels


def _contraction(operand: Tensor, axis: Axis, draw: Draw) -> Contraction | None:
    """Returns a random vector along an axis of an operand; None if the axis is short."""
    dim, groups = axis.operand
    length = operand.shape[dim] // groups
    if length <= NUM_LIMBS:
        return None
    limbs = draw(torch.empty(NUM_LIMBS, length, dtype=torch.int32))
    return Contraction(axis, limbs & ((1 << LIMB_BITS) - 1))


def _shortened(operand: Tensor, by: Contraction | None) -> Tensor:
    """Returns an operand with the limbs of its contraction in the place of a long axis."""
    if by is None:
        return operand.long()
    limbs = _wide_limbs(_contracted(operand, by.axis.operand, by.limbs))
    dim = by.axis.operand[0] % operand.dim()
    return limbs.movedim(0, dim + 1).flatten(dim, dim + 1)


def _resized(op: Bilinear, places: list[Place]) -> Bilinear:
    """Returns the operation for operands with limbs along axes, at these places of the result."""
    for dim, groups in places:
        if isinstance(op, ConvGradInput):
            op = replace(op, input_shape=_with(op.input_shape, dim, groups * NUM_LIMBS))
        elif isinstance(op, ConvGradWeight):
            op = replace(op, weight_shape=_with(op.weight_shape, dim, groups * NUM_LIMBS))
    return op


def _with(shape: tuple[int, ...], dim: int, size: int) -> tuple[int, ...]:
    return (*shape[:dim], size, *shape[dim + 1 :])


def _along(x: Tensor, place: Place) -> Tensor:
    """Returns x with an axis first; the groups stay at its dimension."""
    dim, groups = place[0] % x.dim(), place[1]
    return x.unflatten(dim, (groups, x.shape[dim] // groups)).movedim(dim + 1, 0)


def _contracted(x: Tensor, place: Place, limbs: Tensor) -> Tensor:
    """Returns the sum of a vector times x along an axis, mod p; the axis is gone."""
    dim, groups = place[0] % x.dim(), place[1]
    before, after = x.shape[:dim], x.shape[dim + 1 :]
    rows = x.reshape(before.numel() * groups, limbs.shape[1], after.numel())
    first, *others = zip(rows.split(MOST_ROWS, 1), limbs.split(MOST_ROWS, 1), strict=True)
    total = _sums(*first)
    for part in others:
        total = (total + _sums(*part)) % PRIME  # each sum is below 2^61: a few would not fit
    return total.reshape(*before, groups, *after)


def _sums(rows: Tensor, limbs: Tensor) -> Tensor:
    """Returns the sum of a vector times rows of shape (outer, n, inner), mod p."""
    if rows.dtype != torch.int64:
        return join_limbs(contract(rows, limbs), LIMB_BITS)
    outer = max(SLICE_ELEMENTS // rows[0].numel(), 1)
    inner = max(SLICE_ELEMENTS // (outer * rows.shape[1]), 1)
    return torch.cat(
        [
            torch.cat([_wide_sums(part, limbs) for part in some.split(inner, 2)], 1)
            for some in rows.split(outer)
        ]
    )


def _wide_sums(rows: Tensor, limbs: Tensor) -> Tensor:
    sums = [join_limbs(contract(_wide_limb(rows, i).int(), limbs), LIMB_BITS) for i in range(3)]
    return join_limbs(torch.stack(sums), WIDE_BITS)


def _wide_limbs(x: Tensor) -> Tensor:
    return torch.stack([_wide_limb(x, i) for i in range(NUM_LIMBS)])


def _wide_limb(x: Tensor, i: int) -> Tensor:
    """Returns limb i of int64 numbers below 2^62, 0 is the lowest; only the highest is signed."""
    shifted = x >> WIDE_BITS * i
    return shifted if i == NUM_LIMBS - 1 else shifted.bitwise_and_((1 << WIDE_BITS) - 1)
