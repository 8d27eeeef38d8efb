"""Polynomials of secrets in the Chebyshev basis: no cancellation, coefficients of moderate size.

T_(m+j) = 2 T_m T_j - T_(m-j). With m = 2^l and 1 <= j <= m, level l computes those of T_(m+1) to
T_(2m) that are needed, in one product. Integers have a public scale (see `functions.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil, log2

import torch

from ..core import ProtocolCore
from ..products.bilinear import MUL
from ..share import Arith, join
from ..steps import Steps


def chebyshev(
    p: ProtocolCore,
    y: Arith,
    coefficients: Sequence[float],
    *,
    argument_bits: int,
    fraction_bits: int,
) -> Steps[Arith]:
    """Returns the sum over j of coefficients[j] T_j(y / 2^argument_bits); |y| <= 2^argument_bits.

    The sum has `fraction_bits`, and |sum| < 4; its division may be pending. ceil(log2 degree)
    products one after the other. Error: a few units of the working precision, which is
    argument_bits, at least fraction_bits + 4 and at most half the ring less 2 bits; with
    probabilistic divisions it is fraction_bits + 4.
    """
    room, least = p.ring.bits - 2, fraction_bits + 4
    bits = min(max(argument_bits, least) if p.exact else least, (room - 2) // 2)
    y = (yield from p.settled.steps(_rescaled(y, argument_bits, bits))).promise(2 << bits)
    fine = room - 2 - ceil(log2(sum(map(abs, coefficients)) + 1)) - bits
    settle_last = fine - bits < fraction_bits
    most = fraction_bits + 8 if p.exact else fraction_bits
    fine = min(fine if settle_last else fine - bits, most)
    basis = yield from _basis(p, y, coefficients, bits, settle_last)
    total = y.scaled(round(coefficients[1] * 2**fine))
    for j in range(2, len(coefficients)):
        if factor := round(coefficients[j] * 2**fine):
            total = p.add(total, basis[j].scaled(factor))
    total = total.divided(bits + fine - fraction_bits)
    total = p.add_public(total, round(coefficients[0] * 2**fraction_bits))
    return total.promise(4 << (fraction_bits + total.pending))


def _rescaled(y: Arith, argument_bits: int, bits: int) -> Arith:
    """y with another number of fraction bits; if that is fewer, a division is pending."""
    more = bits - argument_bits - y.pending
    if more <= 0:
        return y.divided(-more - y.pending)
    return y.scaled(1 << more).divided(-y.pending)


def _basis(
    p: ProtocolCore, y: Arith, coefficients: Sequence[float], bits: int, settle_last: bool
) -> Steps[dict[int, Arith]]:
    """Returns T_j(y) by j, for all j that have a coefficient, and those that they are made of."""
    basis, levels = {1: y}, _levels(j for j in range(2, len(coefficients)) if coefficients[j])
    for i, wanted in enumerate(levels):
        m = 1 << i
        right = join(torch.stack, [basis[n - m] for n in wanted])
        left = basis[m].unsqueeze(0)
        products = (yield from p.bilinear.steps(MUL, left, right, shift=bits)).scaled(2)
        less = [_one(p, y, bits) if n == 2 * m else basis[2 * m - n] for n in wanted]
        made = p.sub(products, join(torch.stack, less))
        if settle_last or i < len(levels) - 1:
            made = yield from p.settled.steps(made)
        made = made.promise(2 << (bits + made.pending))
        basis |= {n: made[j] for j, n in enumerate(wanted)}
    return basis


def _levels(wanted: Iterable[int]) -> list[list[int]]:
    """The n of all T_n to compute for those wanted, by level."""
    needed, todo = set[int](), list(wanted)
    while todo:
        n = todo.pop()
        if n > 1 and n not in needed:
            needed.add(n)
            m = 1 << ((n - 1).bit_length() - 1)
            todo += [m, n - m, 2 * m - n]
    depth = max(needed, default=1)
    levels: list[list[int]] = [[] for _ in range((depth - 1).bit_length())]
    for n in sorted(needed):
        levels[(n - 1).bit_length() - 1].append(n)
    return levels


def _one(p: ProtocolCore, like: Arith, bits: int) -> Arith:
    return p.add_public(like.scaled(0), 1 << bits)
