"""Residue number systems: the moduli, how long an exact sum may be, and the constants of kernels.

A word is known by its centred residues r_i modulo m_i, bytes, as long as it is below half the
product M of the moduli. A product of residues is a product of words, and a sum X of K of them obeys
|X| <= K 2^(2 bits - 2). The right operand's residues are multiplied by (M / m_i)^-1 mod m_i, so
that sums t_i of products give, by the Chinese remainder,

    X = sum_i t_i (M / m_i) - q M    with    q = round(sum_i t_i / m_i),

whether t_i is reduced modulo m_i or not. It is computed mod 2^bits, where only q needs care: the
sum of t_i / m_i is X / M and an integer, so q is right while its error and |X| / M are together
below 1/2. `MARGIN` is left for the error.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import prod

import torch
from torch import Tensor

MODULI = (256, 255, 253, 251, 247, 241, 239, 233, 229, 227, 223, 217, 211, 199, 197, 193, 191, 181)

# Fraction bits of the reciprocals 1 / m_i by which sums of 32 bits and reduced ones are multiplied.
# The errors of sum_i t_i / m_i: 18 * 10240 * 2^14 * 2^-39 < 0.01 and 18 * 2^7 * 2^-23 < 0.001.
SUM_FRACTION = 38
BYTE_FRACTION = 22
MARGIN = 0.01


@dataclass(frozen=True)
class ResidueSystem:
    """The residues of words of so many bits: `planes` moduli, and sums of at most `depth` products.

    A depth is a multiple of 128 for which 2 |X| < (1 - 2 MARGIN) M, sums of products of bytes are
    below 2^31, and sums of those times reciprocals of 38 fraction bits below 2^63.
    """

    bits: int
    planes: int
    depth: int

    @property
    def moduli(self) -> tuple[int, ...]:
        return MODULI[: self.planes]

    @property
    def product(self) -> int:
        return prod(self.moduli)

    def inverse(self, m: int) -> int:
        """(M / m)^-1 mod m."""
        return pow(self.product // m, -1, m)


SYSTEMS = {64: ResidueSystem(64, 18, 10240), 32: ResidueSystem(32, 10, 32768)}


def system_of(x: Tensor) -> ResidueSystem:
    """The system for the ring of a tensor."""
    return SYSTEMS[x.element_size() * 8]


def centred(value: int, m: int) -> int:
    """The representative mod m in [-m/2, m/2)."""
    return (value + m // 2) % m - m // 2


@cache
def weights(bits: int, right: bool, device: torch.device) -> Tensor:
    """For each modulus, in float32: the residues of 2^(16 j), j < 4, then m and 1 / m; two unused.

    Those for right operands are multiplied by the inverse.
    """
    system = SYSTEMS[bits]
    rows = []
    for m in system.moduli:
        factor = system.inverse(m) if right else 1
        powers = [centred(factor << (16 * j), m) for j in range(4)]
        rows.append([*powers, m, 1 / m, 0, 0])
    return torch.tensor(rows, dtype=torch.float32).to(device)


@cache
def factors(bits: int, device: torch.device) -> Tensor:
    """For each modulus, in int32: m, 1 / m with 38 and with 22 fraction bits, and M / m mod 2^64 as
    a signed low and a high half; three unused. The last row has the halves of -M."""
    system = SYSTEMS[bits]
    rows = []
    for m in system.moduli:
        reciprocals = (_reciprocal(m, SUM_FRACTION), _reciprocal(m, BYTE_FRACTION))
        rows.append([m, *reciprocals, *_halves(system.product // m), 0, 0, 0])
    rows.append([0, 0, 0, *_halves(-system.product), 0, 0, 0])
    return torch.tensor(rows, dtype=torch.int32).to(device)


def _reciprocal(m: int, fraction: int) -> int:
    return ((2 << fraction) // m + 1) // 2


def _halves(value: int) -> tuple[int, int]:
    """Integers of 32 bits, low and high, with low + 2^32 high = value mod 2^64."""
    low = centred(value, 1 << 32)
    return low, centred((value - low) >> 32, 1 << 32)
