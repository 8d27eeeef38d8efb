"""Values as lists of tensors, for replayed functions and checkpoints.

A replayed function keeps the tensors of its values in fixed buffers. Its recorded graph fits values
of the same signature: the same dtype, shape, limit, pending division and parts.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from torch import Tensor

from ..protocols import Arith, Bool
from .extended.moments import ExtendedValue
from .format import Format
from .value import Value


@dataclass(frozen=True, eq=False)
class TensorIdentity:
    """A tensor compared by identity: equal to itself only, whatever it holds."""

    tensor: Tensor

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TensorIdentity) and self.tensor is other.tensor

    def __hash__(self) -> int:
        return id(self.tensor)


def full_share(value: Value) -> Arith | Bool:
    """Returns the share of a value with all its fraction bits, those of an extended one too."""
    if isinstance(value, ExtendedValue):
        return value.raw
    return value.bits if value.is_bit else value.arith


def signature(value: Value) -> Hashable:
    """Returns all that is public about a value. Values of equal signature are interchangeable."""
    share = full_share(value)
    fraction_bits = value.fraction_bits if isinstance(value, ExtendedValue) else None
    promised = (share.limit, share.pending, share.dealer) if isinstance(share, Arith) else None
    known = None if value.known is None else TensorIdentity(value.known)
    return value.dtype, value.shape, fraction_bits, promised, tuple(sorted(share.parts)), known


def tensors(value: Value) -> list[Tensor]:
    """Returns this party's parts of a value."""
    parts = full_share(value).parts
    return [parts[i] for i in sorted(parts)]


def with_tensors(n: Format, value: Value, new: Sequence[Tensor]) -> Value:
    """Returns a value of the same signature with other parts."""
    share = full_share(value)
    changed = share.with_parts(dict(zip(sorted(share.parts), new, strict=True)))
    if isinstance(value, ExtendedValue):
        assert isinstance(changed, Arith)
        return ExtendedValue(n, changed, value.fraction_bits, value.dtype)
    return Value(changed, value.dtype, known=value.known)


def clone(n: Format, value: Value) -> Value:
    """Returns the same value in memory of its own."""
    return with_tensors(n, value, [part.clone() for part in tensors(value)])


def settle(n: Format, values: Sequence[Value]) -> None:
    """Makes pending divisions of the values, in place, and shares out all masks. 1 round or none.

    Then any assignment of roles can compute with them. Lazy values are computed.
    """
    shares = {id(share): share for share in map(full_share, values)}
    with n.protocol.parallel():
        for share in shares.values():
            if isinstance(share, Arith) and _unsettled(share):
                n.protocol.settled(share)


def canonical(n: Format, values: Sequence[Value]) -> list[Value]:
    """Returns the values in a form that depends on dtype and shape only. 1 round or none.

    Nothing is pending or known, and the limit of a real is the range of the session. Integers and
    extended values keep their limits.
    """
    shares = [full_share(value) for value in values]
    with n.protocol.parallel():
        settled = [
            n.protocol.settled(share) if isinstance(share, Arith) and _unsettled(share) else share
            for share in shares
        ]
    return [_canonical(n, value, share) for value, share in zip(values, settled, strict=True)]


def _unsettled(share: Arith) -> bool:
    return bool(share.pending) or share.dealer is not None


def _canonical(n: Format, value: Value, share: Arith | Bool) -> Value:
    if isinstance(value, ExtendedValue):
        assert isinstance(share, Arith)
        return ExtendedValue(n, share, value.fraction_bits, value.dtype)
    if isinstance(share, Arith) and value.is_real:
        share = share.with_parts(share.parts, limit=1 << (n.fraction_bits + n.range_bits))
    return Value(share, value.dtype)


def canonical_limit(value: Value) -> int | None:
    """Returns the limit that `canonical` keeps; None for reals and bits, which have a fixed one."""
    if isinstance(value, ExtendedValue) or not (value.is_real or value.is_bit):
        share = full_share(value)
        assert isinstance(share, Arith)
        return share.limit
    return None
