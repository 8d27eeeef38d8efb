"""The root of a sum of squares, also where the squares leave the range."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocols import Arith
from ...protocols.steps import Steps
from ..reduce import Dims, dims_of
from ..value import Value
from .roots import mantissa_bits, root_before_division
from .steps import real, run

if TYPE_CHECKING:
    from ..numbers import Numbers


def length(n: Numbers, x: Value, dims: Dims = None, *, keepdim: bool = False) -> Value:
    """sqrt(sum of x^2) over dimensions. Relative error 2^-15, and two units.

    The length is below 2^(k/2 - 2 - f), which is 2^14 for 64 bits with 16 fraction bits: the sum
    keeps its size, and only the root is of the range.
    """
    x = real(n, x)
    if not x.shape or not dims_of(x, dims):
        return n.absolute(x)
    half = n.ring.bits // 2 - 2
    elements = n.settled(x).arith.promise(1 << half)
    total = n.protocol.square(elements).sum(*dims_of(x, dims), keepdim=keepdim)
    total = total.promise(1 << 2 * half).divided(n.fraction_bits)
    return Value(run(n, _wide_root, total), x.dtype)


def _wide_root(n: Numbers, x: Arith) -> Steps[Arith]:
    """sqrt(x) with a table for all exponents that fit the ring."""
    f = n.fraction_bits
    largest = (n.ring.bits - 4 - f - f + 1) // 2 + 1
    spare = min(n.ring.bits - 4 - mantissa_bits(n) - largest, 26)
    return (yield from root_before_division(n, x, spare))
