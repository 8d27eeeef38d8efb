"""Values taken apart into tensors, and put together again of others of the same form."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor

from ..protocols import Arith, Bool
from .extended.moments import ExtendedValue
from .value import Value

if TYPE_CHECKING:
    from .numbers import Numbers


@dataclass(frozen=True, eq=False)
class Itself:
    """A tensor that is equal to itself alone, whatever it holds."""

    tensor: Tensor

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Itself) and self.tensor is other.tensor

    def __hash__(self) -> int:
        return id(self.tensor)


def share_of(value: Value) -> Arith | Bool:
    """The share that is all of the value: of one with more fraction bits, with all of them."""
    return value.raw if isinstance(value, ExtendedValue) else value.share


def form(value: Value) -> Hashable:
    """All that is public about a value: of equal forms, one can take the other's place."""
    share = share_of(value)
    places = value.fraction_bits if isinstance(value, ExtendedValue) else None
    promised = (share.limit, share.pending, share.dealer) if isinstance(share, Arith) else None
    known = None if value.known is None else Itself(value.known)
    return value.dtype, value.shape, places, promised, tuple(sorted(share.parts)), known


def tensors(value: Value) -> list[Tensor]:
    """This party's parts."""
    parts = share_of(value).parts
    return [parts[i] for i in sorted(parts)]


def rebuilt(n: Numbers, value: Value, made: Sequence[Tensor]) -> Value:
    """A value of the same form, of other parts."""
    share = share_of(value)
    again = share.with_parts(dict(zip(sorted(share.parts), made, strict=True)))
    if isinstance(value, ExtendedValue):
        assert isinstance(again, Arith)
        return ExtendedValue(n, again, value.fraction_bits, value.dtype)
    return Value(again, value.dtype, known=value.known)


def normal(n: Numbers, values: Sequence[Value]) -> list[Value]:
    """The same values in the form that their shape and dtype give them: nothing pending or known,
    and real numbers promised to be within the range, no less. 1 round or none."""
    shares = [share_of(value) for value in values]
    with n.protocol.parallel():
        settled = [
            n.protocol.settled(share) if isinstance(share, Arith) and _waits(share) else share
            for share in shares
        ]
    return [_normal(n, value, share) for value, share in zip(values, settled, strict=True)]


def _waits(share: Arith) -> bool:
    return bool(share.pending) or share.dealer is not None


def _normal(n: Numbers, value: Value, share: Arith | Bool) -> Value:
    if isinstance(value, ExtendedValue):
        assert isinstance(share, Arith)
        return ExtendedValue(n, share, value.fraction_bits, value.dtype)
    if isinstance(share, Arith) and value.is_real:
        share = share.with_parts(share.parts, limit=1 << (n.fraction_bits + n.range_bits))
    return Value(share, value.dtype)


def copied(n: Numbers, value: Value) -> Value:
    """The same value in memory of its own."""
    return rebuilt(n, value, [part.clone() for part in tensors(value)])


def promise(value: Value) -> int | None:
    """What is promised of a value, as far as `normal` leaves it."""
    if isinstance(value, ExtendedValue) or not (value.is_real or value.is_bit):
        share = share_of(value)
        assert isinstance(share, Arith)
        return share.limit
    return None
