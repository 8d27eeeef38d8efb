"""Residue number systems: the moduli, how long an exact sum may be, and the constants of kernels.

An integer x is determined by its centred residues r_i modulo m_i, which are bytes, as long as |x|
is below half the product M of the moduli. Residues are multiplied and added modulo each m_i by
itself. Words are read as signed, so that a sum X of K products of words obeys
|X| <= K 2^(2 bits - 2). The right operand's residues are multiplied by (M / m_i)^-1 mod m_i
beforehand, so that the sums t_i of products of residues give, by the Chinese remainder,

    X = sum_i t_i (M / m_i) - q M    with    q = round(sum_i t_i / m_i),

whether t_i is reduced modulo m_i or not: a multiple of m_i in t_i adds a multiple of M to both
terms. X is computed mod 2^bits, and only q has to be right as an integer. sum_i t_i / m_i is q +
X / M, so that q is right if |X| / M and the error of the computed sum are together below 1/2.
`MARGIN` is left for that error.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import prod

import torch
from torch import Tensor

MODULI = (256, 255, 253, 251, 247, 241, 239, 233, 229, 227, 223, 217, 211, 199, 197, 193, 191, 181)

# Fraction bits of the reciprocals 1 / m_i that are multiplied by 32-bit sums and by reduced sums.
# sum_i t_i / m_i is off by at most 18 * 10240 * 2^14 * 2^-39 < 0.01 and 18 * 2^7 * 2^-23 < 0.001.
SUM_FRACTION = 38
BYTE_FRACTION = 22
MARGIN = 0.01


@dataclass(frozen=True)
class ResidueSystem:
    """The residues of words of so many bits: `planes` moduli, and sums of at most `depth` products.

    The depth is a multiple of 128, such that 2 |X| < (1 - 2 MARGIN) M, that sums of products of
    bytes are at most 2^29, and that the sum of those times reciprocals of 38 fraction bits is below
    2^63. `test_gpu_products.py` checks these bounds. 10240 2^126 = 0.46 M with 18 moduli, M =
    2^140.45; 32768 2^62 = 0.22 M with 10 moduli, M = 2^79.24.
    """

    bits: int
    planes: int
    depth: int

    @property
    def moduli(self) -> tuple[int, ...]:
        """The first `planes` of MODULI."""
        return MODULI[: self.planes]

    @property
    def product(self) -> int:
        """M, the product of the moduli."""
        return prod(self.moduli)

    def inverse(self, m: int) -> int:
        """Returns (M / m)^-1 mod m."""
        return pow(self.product // m, -1, m)


SYSTEMS = {64: ResidueSystem(64, 18, 10240), 32: ResidueSystem(32, 10, 32768)}


def system_of(x: Tensor) -> ResidueSystem:
    """Returns the system for the ring of a tensor."""
    return SYSTEMS[x.element_size() * 8]


def centred(value: int, m: int) -> int:
    """Returns the representative mod m in [-m/2, m/2)."""
    return (value + m // 2) % m - m // 2


@cache
def weights(bits: int, right: bool, device: torch.device) -> Tensor:
    """Returns the constants of encoding, on a device: for each modulus m a row of eight float32.

    They are the residues of 2^(16 j), j < 4, times the inverse for right operands, then m and
    1 / m; two are unused.
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
    """Returns the constants of decoding, on a device: for each modulus m a row of eight int32.

    They are m, 1 / m with 38 and with 22 fraction bits, M / m mod 2^64 as a signed low and a high
    half; three are unused. One more row has the halves of -M, for the quotient q.
    """
    system = SYSTEMS[bits]
    rows = []
    for m in system.moduli:
        reciprocals = (_reciprocal(m, SUM_FRACTION), _reciprocal(m, BYTE_FRACTION))
        rows.append([m, *reciprocals, *_halves(system.product // m), 0, 0, 0])
    rows.append([0, 0, 0, *_halves(-system.product), 0, 0, 0])
    return torch.tensor(rows, dtype=torch.int32).to(device)


def _reciprocal(m: int, fraction: int) -> int:
    """Returns 2^fraction / m, rounded."""
    return ((2 << fraction) // m + 1) // 2


def _halves(value: int) -> tuple[int, int]:
    """Returns signed 32-bit integers with low + 2^32 high = value mod 2^64."""
    low = centred(value, 1 << 32)
    return low, centred((value - low) >> 32, 1 << 32)
