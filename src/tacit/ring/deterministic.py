"""Functions of public floats that every machine computes with the same bits.

Parties multiply their shares by public numbers, or add public numbers to a part that several of
them hold. If these differ in the last bit at two parties, the secret turns into noise, and no party
notices. The last bit of a library's sine, logarithm or matrix product depends on the processor, the
vector width and the number of threads, and that of a sum on its order. The functions here use only
sums, products, quotients, square roots and conversions of float64, each in a tensor operation of
its own, whose results IEEE 754 defines.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import factorial, log, pi, sqrt

import torch
from torch import Tensor

from .ring import ring_of

# Taylor coefficients. SINE and COSINE are in powers of the square, for |angle| <= pi/4: accurate to
# 2^-54. SINE_TO_QUARTER serves |angle| <= pi/2, EXP |x| <= ln 2, ARTANH |x| < 0.172.
SINE = [(-1) ** i / factorial(2 * i + 1) for i in range(8)]
COSINE = [(-1) ** i / factorial(2 * i) for i in range(9)]
SINE_TO_QUARTER = [(-1) ** i / factorial(2 * i + 1) for i in range(12)]
EXP = [1 / factorial(i) for i in range(16)]
ARTANH = [1 / (2 * i + 1) for i in range(12)]


def horner(coefficients: Sequence[float], x: Tensor) -> Tensor:
    """Returns the polynomial with these coefficients at x; the constant one comes first."""
    total = torch.full_like(x, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total.mul_(x).add_(coefficient)
    return total


def logarithm(x: Tensor) -> Tensor:
    """Returns the natural logarithm of float64: ln m + e ln 2, with m from sqrt(1/2) to sqrt(2)."""
    mantissa, exponent = torch.frexp(x)
    low = mantissa < sqrt(0.5)
    mantissa, exponent = torch.where(low, mantissa * 2, mantissa), exponent - low.to(torch.int32)
    ratio = (mantissa - 1) / (mantissa + 1)  # ln m = 2 artanh(ratio), |ratio| < 0.172
    return 2 * ratio * horner(ARTANH, ratio * ratio) + exponent.to(torch.float64) * log(2)


def total(x: Tensor, dims: Sequence[int] = (), *, keepdim: bool = False) -> Tensor:
    """Returns the sum over dimensions, all by default. Shorter floats are added in float64.

    Their sum there is exact, so that its order does not matter.
    """
    if not x.is_floating_point():
        return x.sum(tuple(dims), keepdim=keepdim)
    return x.sum(tuple(dims), keepdim=keepdim, dtype=torch.float64).to(x.dtype)


def cosine_of_turns(turns: Tensor) -> Tensor:
    """Returns cos(2 pi t) for 0 <= t < 1, as sin(2 pi (|t - 1/2| - 1/4)). Error below 2^-49."""
    angle = ((turns - 0.5).abs() - 0.25) * (2 * pi)
    return angle * horner(SINE_TO_QUARTER, angle * angle)


def odd_harmonics(x: Tensor, period_bits: int, count: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yields sin and cos of 2 pi h x / 2^period_bits for h = 1, 3, 5, ..., `count` of them.

    The phase is reduced as an integer. With a = 2 pi x / 2^period_bits, the step from h to h + 2 is
    sin((h + 2) a) = 2 cos(2 a) sin(h a) - sin((h - 2) a); the cosine has the same recurrence.
    """
    sine, cosine = _sin_cos(x << (ring_of(x).bits - period_bits))
    step = 2 - sine * sine * 4  # 2 cos(2 a)
    before = -sine, cosine
    for _ in range(count):
        yield sine, cosine
        after = step * sine - before[0], step * cosine - before[1]
        before, (sine, cosine) = (sine, cosine), after


def stacked_harmonics(x: Tensor, period_bits: int, count: int) -> Tensor:
    """Returns the sines and cosines of `odd_harmonics`, of shape (count, 2, *x.shape).

    Each phase is the product of an integer and x, in the ring.
    """
    harmonics = torch.arange(1, 2 * count, 2, device=x.device, dtype=x.dtype)
    phases = harmonics.view(-1, *[1] * x.dim()) * (x << (ring_of(x).bits - period_bits))
    return torch.stack(_sin_cos(phases), 1)


def _sin_cos(turn: Tensor) -> tuple[Tensor, Tensor]:
    """Returns sin and cos of 2 pi turn / 2^k for ring elements.

    The angle is a number of quadrants and a rest of at most pi/4 in magnitude.
    """
    bits = ring_of(turn).bits
    quadrant = (turn + (1 << (bits - 3))) >> (bits - 2)
    angle = (turn - (quadrant << (bits - 2))).to(torch.float64) * (2 * pi / 2.0**bits)
    square = angle * angle
    sine, cosine = horner(SINE, square) * angle, horner(COSINE, square)
    odd = quadrant & 1 == 1
    sine, cosine = torch.where(odd, cosine, sine), torch.where(odd, sine, cosine)
    return (
        torch.where(quadrant & 2 == 2, -sine, sine),
        torch.where((quadrant + 1) & 2 == 2, -cosine, cosine),
    )


def power_of_half(x: Tensor, bits: int) -> Tensor:
    """Returns 2^(-x / 2^bits), for 0 <= x <= 2^bits."""
    return horner(EXP, x.to(torch.float64) * (-log(2) / 2.0**bits))


def to_ring(x: Tensor, bits: int, like: Tensor) -> Tensor:
    """Returns x rounded to a multiple of 2^-bits, as ring elements of the dtype of `like`."""
    return (x * 2.0**bits).round_().to(like.dtype)
