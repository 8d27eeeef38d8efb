"""Guards: secret values that leave their range are found while a program runs on secrets.

A watched value is compared with both ends of its range, on all bits of the ring: also a value that
ordinary comparisons would misread is found, unless the ring itself wrapped and led back into the
range. The comparisons wait until a check or until `MOST_ELEMENTS` wait, and then share their
rounds. Each adds its number of values out of range to a secret count of its name. A check opens one
bit for each name, whether its count is zero, and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..errors import RangeError
from ..protocols import Arith, BitSum, Bool
from ..protocols.share import join
from ..protocols.steps import Steps, drive, together
from ..transport.consensus import synchronized
from .format import Format, Watched, range_remedy
from .value import Value

MOST_ELEMENTS = 1 << 22
MOST_TOGETHER = 16  # values whose comparisons share their rounds: messages have few tensors
MOST_NAMES = 4  # in an error
REVEALED = "a revealed value"


def watch(n: Format, name: str, value: Value, range_bits: int | None = None) -> None:
    """Watches whether a real value is at most 2^range_bits in magnitude, by default the session's.

    Does nothing unless the session has guards. A value that is watched twice keeps the first name
    and the narrower range. Lazy values are not watched: that would compute them.
    """
    watched = n.watched
    if watched is None or type(value) is not Value or value.known is not None:
        return
    if not value.is_real or not value.shape.numel():
        return
    if n.trace is not None:
        n.trace.refuse("its values are watched by a guard")
    bits = n.fraction_bits + (n.range_bits if range_bits is None else range_bits)
    share = value.arith
    name, _, before = watched.waiting.get(id(share), (name, share, bits))
    watched.waiting[id(share)] = (name, share, min(bits, before))
    watched.elements += share.numel
    if watched.elements > MOST_ELEMENTS:
        _compare_waiting(n, watched)


def check(n: Format, values: Sequence[Value] = ()) -> None:
    """Raises RangeError, at every party, if a watched value or one of these left its range.

    The comparisons that wait, a comparison of the counts with 0, and one opening for all names.
    """
    watched = n.watched
    if watched is None:
        return
    for value in values:
        watch(n, REVEALED, Value(value.share, value.dtype))  # a lazy one is computed
    _compare_waiting(n, watched)
    counts, watched.counts = watched.counts, {}
    if counts and (names := _nonzero(n, counts)):
        error = _left_range(n, names)
        policy = n.protocol.context.reveal_policy
        everyone = policy.admits_all and (policy.admits_dealer or not n.protocol.helpers)
        raise synchronized(n.protocol.context.mesh, error) if everyone else error


def _compare_waiting(n: Format, watched: Watched) -> None:
    waiting = list(watched.waiting.values())
    watched.waiting, watched.elements = {}, 0
    for start in range(0, len(waiting), MOST_TOGETHER):
        batch = waiting[start : start + MOST_TOGETHER]
        calls = [_count_outside(n, share, 1 << max(bits, 0)) for _, share, bits in batch]
        found = drive(n.protocol.context, together(*calls))
        for (name, _, _), count in zip(batch, found, strict=True):
            before = watched.counts.get(name)
            watched.counts[name] = count if before is None else n.protocol.add(before, count)


def _count_outside(n: Format, x: Arith, most: int) -> Steps[Arith]:
    """Returns how many elements of x / 2^pending are above `most` in magnitude. r + 1 rounds.

    An element counts 1 - [x <= most] + [x < -most]: 0 inside. Close to the end of the ring both
    bits may be wrong, and it counts 2.
    """
    p = n.protocol
    whole = Arith(x.parts, x.ring, pending=x.pending, dealer=x.dealer)
    below = yield from p.signs.steps(whole, [-most, most + 1])
    [inside] = yield from p.inject_sums.steps(below, None, [BitSum((0, 0), (-1, 1))])
    return p.add_public(p.neg(inside.sum()), x.numel).promise(2 * x.numel)


def _nonzero(n: Format, counts: dict[str, Arith]) -> list[str]:
    """Returns the names whose count is not 0, after one opening."""
    zero = n.protocol.is_zero(join(torch.stack, list(counts.values())))
    flags = _opened(n, zero)
    return [name for name, is_zero in zip(counts, flags, strict=True) if not is_zero]


def _opened(n: Format, bits: Bool) -> list[bool]:
    """Returns bits at all parties, or at those that the policy lets learn anything; else ones."""
    policy, found = n.protocol.context.reveal_policy, None
    with policy.guarding():
        for to in policy.recipients:
            mine = n.protocol.reveal(bits, to, dtype=torch.bool, to_dealer=policy.admits_dealer)
            found = mine if found is None else found
    return [True] * bits.shape.numel() if found is None else found.tolist()


def _left_range(n: Format, names: Sequence[str]) -> RangeError:
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return RangeError(
        f"the guard found values beyond their range in {', '.join(names[:MOST_NAMES])}{more}",
        limit=f"2^{n.range_bits} in magnitude, or what tacit.nn.tighten promises",
        remedy=range_remedy(n),
        path=None if names[0] == REVEALED else names[0],
    )
