"""Which part of a dealt value each evaluator receives, and which it draws.

The leader receives dealt values, and the other evaluators draw their shares of them. Of two
evaluators each receives one half of long messages, and draws the other: a link carries half as
much, and both decrypt at the same time. Values are taken in the order of the size of their
elements, the widest first. The first evaluator receives the first half of all bits, in whole words.
What is sent as a few bits of each element goes to the leader.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from .values import ValueSpec, ValueSpecs, total

if TYPE_CHECKING:
    from .base import Roles

HALVED_BITS = 1 << 23  # of dealt values, from which on they are halved
WORD_BITS = 64


def first_half(bits: int, narrow: int = 0) -> int:
    """Returns how many dealt bits the first of two evaluators receives; `narrow` are not its."""
    if bits < HALVED_BITS:
        return 0
    return min(bits - narrow, bits // 2) // WORD_BITS * WORD_BITS


def is_long(dealt: ValueSpecs) -> bool:
    """Whether these values, dealt together, are halved between two evaluators."""
    return sum(spec.num_bits for spec in dealt) >= HALVED_BITS


class Portion(NamedTuple):
    """How an evaluator gets its share of a value: it receives some elements and draws the others.

    received, drawn: their specs; None if there are none. begins: whether those that are received
    are the first ones.
    """

    whole: ValueSpec
    received: ValueSpec | None
    drawn: ValueSpec | None
    begins: bool

    def sent(self, value: Tensor) -> Tensor | None:
        """Returns, at the dealer, what is sent of the value, if anything is."""
        if self.received is None or self.drawn is None:
            return None if self.received is None else self.whole.packed(value)
        flat, count = value.reshape(-1), self.received.numel
        return flat[:count] if self.begins else flat[-count:]

    def share(self, received: Tensor | None, drawn: Tensor | None) -> Tensor:
        """Returns the share, from what was received and drawn."""
        parts = [received, drawn] if self.begins else [drawn, received]
        found = [part for part in parts if part is not None]
        return found[0] if len(found) == 1 else torch.cat(found).view(self.whole.shape)


def pad_of(column: Sequence[tuple[Portion, Tensor | None]]) -> Tensor:
    """Returns, at the dealer, the sum of what the evaluators draw of a value.

    column: by evaluator. Of a value in halves the last one draws the first half.
    """
    drawn = [(one, part) for one, part in column if part is not None]
    whole, parts = drawn[0][0].whole, [part for _, part in drawn]
    if any(one.received is not None for one, _ in drawn):
        return torch.cat(parts[::-1]).view(whole.shape)
    return total(whole, parts)


@lru_cache(maxsize=1024)
def portions(roles: Roles, dealt: ValueSpecs) -> dict[int, list[Portion]]:
    """Returns how each evaluator gets its share of each value."""
    counts = _first_counts(dealt) if roles.deals_halves else [0] * len(dealt)
    found = {e: [_drawn(spec) for spec in dealt] for e in roles.evaluators}
    for i, (spec, count) in enumerate(zip(dealt, counts, strict=True)):
        if count == 0:
            found[roles.leader][i] = _received(spec)
        elif count == spec.numel:
            found[roles.evaluators[0]][i] = _received(spec)
        else:
            begin, end = spec.part(count), spec.part(spec.numel - count)
            found[roles.evaluators[0]][i] = Portion(spec, begin, end, begins=True)
            found[roles.leader][i] = Portion(spec, end, begin, begins=False)
    return found


def _received(spec: ValueSpec) -> Portion:
    return Portion(spec, spec, None, begins=True)


def _drawn(spec: ValueSpec) -> Portion:
    return Portion(spec, None, spec, begins=False)


def _first_counts(dealt: Sequence[ValueSpec]) -> list[int]:
    """How many elements of each value the first of two evaluators receives."""
    narrow = sum(spec.num_bits for spec in dealt if spec.width)
    left = first_half(sum(spec.num_bits for spec in dealt), narrow)
    counts = [0] * len(dealt)
    for i in sorted(range(len(dealt)), key=lambda i: -dealt[i].dtype.itemsize):
        if not dealt[i].width:
            taken = min(left, dealt[i].num_bits)
            counts[i], left = taken // (8 * dealt[i].dtype.itemsize), left - taken
    return counts
