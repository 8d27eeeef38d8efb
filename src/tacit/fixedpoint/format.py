"""The fixed-point format of a session: which ring elements stand for which numbers.

A real number x is the integer round(x 2^f), where f is the number of fraction bits; an integer or
a truth value is itself. One unit is 2^-f. Functions of this package take a `Format` as their first
argument, `n`.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any, Self

import torch
from torch import Tensor

from ..protocols import Arith, Protocol
from ..ring import Ring
from ..ring.drawn_numbers import NOTED, drawn

# A product of a secret and a public factor stays below 2^(k - 2 - HEADROOM) in a ring of k bits.
HEADROOM = 1


@dataclass
class Watched:
    """What guards watch, see guard.py: values that wait for their comparison, and counts by name.

    waiting: name, share and bits of the largest magnitude, by the identity of the share.
    """

    waiting: dict[int, tuple[str, Arith, int]] = field(default_factory=dict)
    elements: int = 0
    counts: dict[str, Arith] = field(default_factory=dict)


class Format:
    """The numbers of a session: a protocol, the fraction bits and the range.

    range_bits: every real value has a magnitude below 2^range_bits. Comparisons of larger values
        give wrong results; sums and products stay right up to the end of the ring.
    debug: raises RangeError if a value leaves the range. Needs the cleartext protocol.
    extra_bits: the values are gradients, which are 2^extra_bits times larger; see `widened`.
    watched: what the guards of a session watch, or None for a session without them.
    trace: the object that records which tensors a replayed function reads and creates, or None.
    on_refusal: the function that answers `bool(secret)` and the like in a dry run; None refuses.
    on_call: the function of a rehearsal that makes each call of torch on secrets; it is given the
    function that makes it, the operator and its arguments.
    """

    is_plain = False  # whether values are plain tensors, on which torch computes

    def __init__(
        self,
        protocol: Protocol,
        *,
        fraction_bits: int,
        range_bits: int | None = None,
        debug: bool = False,
        guard: bool = False,
    ) -> None:
        self.protocol, self.debug = protocol, debug
        self.watched = Watched() if guard else None
        self.extra_bits = 0
        self._widened: dict[int, Self] = {}
        self.trace: Any = None
        self.on_refusal: Any = None
        self.on_call: Any = None
        self.fraction_bits = fraction_bits
        self.range_bits = min(20, self.most_range_bits) if range_bits is None else range_bits

    @property
    def ring(self) -> Ring:
        """The ring of the shares."""
        return self.protocol.ring

    @property
    def device(self) -> torch.device:
        """The device of the shares. Public tensors are on the CPU."""
        return self.protocol.device

    @property
    def most_range_bits(self) -> int:
        """The largest range_bits for which a product of two reals fits the ring."""
        return self.ring.bits - 3 - 2 * self.fraction_bits

    @property
    def eps_bits(self) -> int:
        """The fraction bits of the smallest eps of a normalisation that makes a difference."""
        return self.fraction_bits + variance_bits(self) - variance_floor(self)

    def widened(self, bits: int) -> Self:
        """Returns the format of numbers that are 2^bits times larger. Kept: it is made once."""
        found = self._widened.get(bits)
        if found is None:
            found = self._widened[bits] = copy.copy(self)
            found.range_bits += bits
            found.extra_bits = bits
        return found

    def bits_of(self, dtype: torch.dtype) -> int:
        """Returns the fraction bits of a value of this dtype."""
        return self.fraction_bits if dtype.is_floating_point else 0


def largest_of(value: Tensor | float) -> float:
    """Returns the largest magnitude; NaN if one number is, 0 for an empty tensor.

    One pass that copies nothing. The magnitude of an integer is exact.
    """
    if not isinstance(value, Tensor):
        return abs(value)
    if not value.numel():
        return 0
    if hasattr(value, NOTED) and (known := drawn(value)) is not None:
        return known.largest
    low, high = torch.aminmax(value.detach())
    return max(-low.item(), high.item())


def decode(elements: Tensor, dtype: torch.dtype, fraction_bits: int) -> Tensor:
    """Returns the numbers that ring elements with `fraction_bits` stand for."""
    if not dtype.is_floating_point:
        return elements.to(dtype)
    return (elements.to(torch.float64) / 2.0**fraction_bits).to(dtype)


def cap(n: Format, x: Arith) -> Arith:
    """Returns x with a limit within the range of the session: |real value| < 2^range_bits."""
    return x.promise(1 << (n.fraction_bits + n.range_bits + x.pending))


def spare_bits(n: Format, x: Arith) -> int:
    """Returns by how many bits a factor of x may grow it while its division stays exact."""
    return n.ring.bits - 2 - HEADROOM - x.limit.bit_length()


def most_pending(n: Format) -> int:
    """Returns the most bits of a pending division for which any sum still fits the ring."""
    return n.ring.bits - 3 - n.fraction_bits - n.range_bits


def variance_bits(n: Format) -> int:
    """Returns the extra fraction bits of a variance; even.

    A small ring has few fraction bits, and rows whose deviation is a few units need all of those
    that a square has.
    """
    return 6 if n.ring.bits == 64 else max(n.fraction_bits // 2 * 2 - 2, 2)


def variance_floor(n: Format) -> int:
    """Returns b such that a smaller variance counts as 2^b of its units.

    In a small ring it is 2^-(f + 4), so that the inverse root has significant bits for large ones.
    """
    return 0 if n.ring.bits == 64 else max(variance_bits(n) - 4, 0)


def variance_limit(n: Format) -> int:
    """Returns b such that a variance is below 2^b of its units.

    With its extra bits it keeps to the range in a large ring, and may leave it in a small one.
    """
    if n.ring.bits == 64:
        return n.fraction_bits + n.range_bits
    return min(n.fraction_bits + n.range_bits + variance_bits(n), n.ring.bits - 5)


def largest_in(x: Arith) -> int:
    """Returns the largest magnitude in a cleartext share, which has one part."""
    [part] = x.parts.values()
    if not part.numel():
        return 0
    low, high = torch.aminmax(part)
    return max(-int(low), int(high))


def range_remedy(n: Format) -> str:
    """Returns what a user can do to make numbers fit the range, for an error's text."""
    most = n.most_range_bits
    fewer = f"fewer fraction_bits than {n.fraction_bits}"
    more = f"a larger range_bits, up to {most}, or " if n.range_bits < most else ""
    wider = ", or ring=64" if n.ring.bits < 64 else ""
    return f"scale it, or give tacit.run {more}{fewer}{wider}"
