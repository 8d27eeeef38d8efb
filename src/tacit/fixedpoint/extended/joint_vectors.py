"""Values of several tensors as one vector, so that an operation on all takes the rounds of one.

An optimizer does the same to each of a model's tensors. Where that takes rounds, the elements of
all tensors are joined to one flat value, and the result is split into views of its memory.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import TypeVar, cast

import torch
from torch import Tensor

from ...protocols import Arith
from ..format import Format
from ..symbolic import SymbolicNumber
from ..value import Value, aligned, combined, public, settled
from .fine_gradients import FineGradient, gradient_bits
from .moments import ExtendedValue, Gradient, Ratio, active_step, gradient

V = TypeVar("V", bound=Value)


def form(x: Value) -> Hashable | None:
    """Returns what values have in common that can be joined; None if x stays alone."""
    if isinstance(x, Gradient):
        return Gradient, x.dtype, id(x.step), x.raw is None
    if isinstance(x, Ratio):
        above = None if x.above is None else form(x.above)
        return above and (Ratio, above, form(x.below), _identity(x.factor))
    if isinstance(x, ExtendedValue):
        parts = x.parts and (_identity(x.parts.factor), x.parts.summand)
        return ExtendedValue, x.dtype, x.fraction_bits, parts
    is_ordinary = type(x) is Value and x.is_real
    return (Value, x.dtype, x.known is None) if is_ordinary else None


def _identity(factor: float | SymbolicNumber) -> Hashable:
    """A symbolic number is compared by identity: its value may be another one in a replay."""
    return id(factor) if isinstance(factor, SymbolicNumber) else factor


def joined(n: Format, values: Sequence[Value]) -> Value:
    """Returns one flat value with the elements of values of the same form. Local, mostly.

    1 round if the masks of products have different dealers.
    """
    first = values[0]
    if isinstance(first, Gradient):
        return _joined_gradients(n, cast("Sequence[Gradient]", values))
    if isinstance(first, Ratio):
        ratios = cast("Sequence[Ratio]", values)
        aboves = [cast("ExtendedValue", x.above) for x in ratios]
        below = _joined_extended(n, [x.below for x in ratios])
        return Ratio(n, _joined_extended(n, aboves), below, first.factor)
    if isinstance(first, ExtendedValue):
        return _joined_extended(n, cast("Sequence[ExtendedValue]", values))
    if first.known is not None:
        return public(n, _flat([cast("Tensor", x.known) for x in values]))
    return _joined_reals(n, values)


def _flat(tensors: Sequence[Tensor]) -> Tensor:
    return torch.cat([x.reshape(-1) for x in tensors])


def _joined_reals(n: Format, values: Sequence[Value]) -> Value:
    if len({x.arith.dealer for x in values} - {None}) > 1:
        with n.protocol.parallel():
            for x in values:
                n.protocol.settled(x.arith)
    return combined(n, values, _flat)


def _joined_gradients(n: Format, values: Sequence[Gradient]) -> Gradient:
    """The gradients of a step are joined once: an optimizer reads them more than once."""
    step, key = values[0].step, tuple(map(id, values))
    if step is not None and key in step.joined:
        return step.joined[key][1]
    if values[0].raw is None:
        made = gradient(_joined_reals(n, [x.ordinary() for x in values]), step)
    else:
        raw = _joined_reals(n.widened(gradient_bits(n)), [cast("Value", x.raw) for x in values])
        made = gradient(FineGradient(n, raw), step)
    if step is not None:
        step.joined[key] = values, made
    return made


def _joined_extended(n: Format, values: Sequence[ExtendedValue]) -> ExtendedValue:
    first, whole = values[0], _whole(values)
    if whole is not None:
        return whole

    def raw() -> Arith:
        shares = aligned(n, [x.raw for x in values])
        parts = {i: _flat([x.parts[i] for x in shares]) for i in shares[0].parts}
        return shares[0].with_parts(parts, limit=max(x.limit for x in shares))

    parts = first.parts
    if parts is not None:
        squares = [x.parts.square for x in values if x.parts is not None]
        parts = replace(parts, square=_joined_extended(n, squares))
    given = raw() if parts is None else raw
    return ExtendedValue(n, given, first.fraction_bits, first.dtype, active_step(*values), parts)


def _whole(values: Sequence[ExtendedValue]) -> ExtendedValue | None:
    """The value whose pieces these are, all of them in order."""
    pieces = [x.piece_of for x in values]
    whole = pieces[0] and pieces[0][0]
    if whole is None or sum(x.shape.numel() for x in values) != whole.shape.numel():
        return None
    in_order = (p is not None and p[0] is whole and p[1] == i for i, p in enumerate(pieces))
    return whole if all(in_order) else None


def split(n: Format, x: Value, shapes: Sequence[torch.Size]) -> list[Value]:
    """Returns the values of these shapes whose elements are joined in x.

    1 round if a division is pending: it is made for all of them at once.
    """
    if isinstance(x, ExtendedValue):
        return [*_split_extended(n, x, shapes)]
    if isinstance(x, Ratio) and x.above is not None:
        aboves, belows = (_split_extended(n, part, shapes) for part in (x.above, x.below))
        pairs = zip(aboves, belows, strict=True)
        return [Ratio(n, above, below, x.factor) for above, below in pairs]
    if type(x) is Value:
        x = settled(n, x)
    return [
        x.map(lambda part, a=a, b=b, shape=shape: part[a:b].reshape(shape))  # type: ignore[misc]
        for a, b, shape in _places(shapes)
    ]


def _split_extended(
    n: Format, x: ExtendedValue, shapes: Sequence[torch.Size]
) -> list[ExtendedValue]:
    squares = [None] * len(shapes) if x.parts is None else split(n, x.parts.square, shapes)
    made = []
    for i, ((a, b, shape), square) in enumerate(zip(_places(shapes), squares, strict=True)):

        def raw(a: int = a, b: int = b, shape: torch.Size = shape) -> Arith:
            return x.raw[a:b].reshape(*shape)

        parts = x.parts and replace(x.parts, square=square)
        given = raw() if parts is None else raw
        piece = ExtendedValue(n, given, x.fraction_bits, x.dtype, x.step, parts)
        piece.piece_of = x, i
        made.append(piece)
    return made


def _places(shapes: Sequence[torch.Size]) -> list[tuple[int, int, torch.Size]]:
    """Where the elements of each shape begin and end in a flat tensor."""
    ends = [0]
    for shape in shapes:
        ends.append(ends[-1] + shape.numel())
    return [*zip(ends, ends[1:], shapes, strict=False)]
