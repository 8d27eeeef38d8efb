"""Softmax, log-softmax and logsumexp. They subtract a logit up to 1/2 below the largest."""

from __future__ import annotations

from ...protocols import Arith
from ...protocols.steps import Steps
from ..arithmetic import add, mul, sub, sum_
from ..format import Format, cap
from ..lazy import Deferred
from ..value import Value, real
from .exponential import decaying
from .quotient import inverted
from .roots import logarithm
from .share_functions import bounded, product, run, settle_exactly

# The extra fraction bits of exponentials, so that the error of a sum of many stays small. The
# inverse of their sum has twice as many.
EXTRA = 6


def exponentials(n: Format, x: Value, dim: int) -> tuple[Value, Value, Value]:
    """Returns e^(x - m), its sum over `dim`, which has size 1 then, and a large entry m.

    The division of the first two by their extra bits is pending. With a dealer, m is at most 1/2
    below the largest, which is close enough: e^(x - m) is not large, and the sum is at least 1.
    """
    x = real(n, x)
    low = _ignored_bits(n, x.shape[dim])
    large = n.protocol.max(cap(n, x.arith), dim, keepdim=True, radix=None, low=low)
    largest = Value(large, x.dtype)
    powers = Value(run(n, _decaying, sub(n, x, largest).arith), x.dtype)
    return powers, sum_(n, powers, (dim,), keepdim=True), largest


def _ignored_bits(n: Format, size: int) -> int:
    """Returns how many low bits need not be compared: all levels together miss 1/2 at most."""
    levels = max((size - 1).bit_length(), 1)
    return max(n.fraction_bits - 2 - levels.bit_length(), 0) if n.protocol.dealt_tables else 0


def _decaying(n: Format, x: Arith) -> Steps[Arith]:
    extra = _extra(n)
    return (yield from decaying(n, cap(n, x), extra)).divided(extra)


def _extra(n: Format) -> int:
    """Returns EXTRA; 0 for probabilistic divisions, which would fail more often with more bits.

    In a small ring, the table of exponentials multiplies its argument by log2(e) with the bits that
    are left: a few of them matter more.
    """
    if not n.protocol.exact:
        return 0
    return EXTRA if n.ring.bits == 64 else min(max(14 - n.fraction_bits, 0), EXTRA)


def softmax(n: Format, x: Value, dim: int) -> Value:
    """Returns e^x over its sum along `dim`, for any logits. Error: a few units.

    ceil(log2 size) (r + 1) rounds for the largest, then r + 1 and those of a reciprocal.
    """
    if not x.shape or not x.shape.numel():
        return add(n, mul(n, real(n, x), 0), 1.0)
    powers, total, _ = exponentials(n, x, dim)
    return softmax_of_powers(n, powers, total)


def softmax_of_powers(n: Format, powers: Value, total: Value) -> Value:
    """Returns powers / total for the results of `exponentials`."""
    return Value(run(n, _softmax_of_powers, powers.arith, total.arith), powers.dtype)


def _softmax_of_powers(n: Format, powers: Arith, total: Arith) -> Steps[Arith]:
    """Divides without the pending divisions, which cancel in the quotient."""
    f, extra = n.fraction_bits, _extra(n)
    inverse_bits = min(f + 2 * EXTRA, n.ring.bits - 6 - f)
    powers, total = powers.divided(-powers.pending), total.divided(-total.pending)
    low = f + extra - 1
    inverse = yield from inverted(n, total, positive=True, low=low, fraction_bits=inverse_bits)
    inverse = (yield from settle_exactly(n, inverse)).promise(4 << (inverse_bits - extra))
    return bounded(n, (yield from product(n, powers, inverse, shift=inverse_bits)), 1.0)


def log_softmax(n: Format, x: Value, dim: int) -> Value:
    """Returns x - ln(sum of e^x along `dim`), with the exponentials and their sum for the gradient.

    The logarithm is computed when something reads the result.
    """
    if not x.shape or not x.shape.numel():
        return mul(n, real(n, x), 0)
    powers, total, largest = exponentials(n, x, dim)
    shifted = sub(n, real(n, x), largest)
    return Deferred(
        lambda: sub(n, shifted, _log_of_sum(n, total)),
        x.shape,
        shifted.dtype,
        {"powers": powers, "total": total},
    )


def logsumexp(n: Format, x: Value, dim: int) -> Value:
    """Returns ln(sum of e^x along `dim`), where `dim` has size 1 then."""
    _, total, largest = exponentials(n, x, dim)
    return add(n, _log_of_sum(n, total), largest)


def _log_of_sum(n: Format, total: Value) -> Value:
    return logarithm(n, total, low=n.fraction_bits - 1)
