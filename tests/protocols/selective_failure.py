"""Whether the end of a run tells a cheating party something about a secret.

A cheating party knows one of the two terms of every secret bit, and sees whether the run ends. If
that depends on the other term, then both together tell it the bit: a selective failure. Each trial
has secrets of its own, one changed message, and a comparison of all views.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import cycle, islice
from random import Random
from typing import Any, NamedTuple

import torch
from tests.protocols.quad_cheats import SETTINGS

import tacit
from tacit import Session
from tacit.protocols import BitSum, ReplicatedMalicious
from tacit.protocols.products.bilinear import MUL
from tacit.protocols.quad.gate import RESULTS
from tacit.protocols.quad.verification import PRIME, HashedViews, Viewers, _number
from tacit.protocols.steps import Round, Steps, drive, together
from tacit.protocols.verified.claims import Claims
from tacit.protocols.verified.verify_claims import check_claims
from tacit.testing import Manipulation, Tap, manipulations_of
from tacit.testing.manipulations import CHANGES, changed_words

SHIFT = 4
SIDE_BY_SIDE = 64  # trials
LOW_BIT = next(  # a seed that chooses the low bit of the first of four words
    seed
    for seed in range(100_000)
    if CHANGES["flip a bit"](torch.zeros(4, dtype=torch.int64), seed).tolist() == [1, 0, 0, 0]
)
FLIP = Manipulation(1, "flip a bit", seed=LOW_BIT)  # in what party 2 deals in an AND of 3 bits
RUN: dict[str, Any] = {"parties": 4, **SETTINGS}
THREE = RUN | {"parties": 3, "protocol": "replicated-malicious"}


class Trial(NamedTuple):
    """What a cheating party sees, and what it must not learn.

    secrets, known: a bit of each operand, and the same bit of the term that the party knows.
    changed: whether its change made a difference to the message.
    """

    secrets: tuple[int, ...]
    known: tuple[int, ...]
    aborted: bool
    changed: bool = True


# The operations, on two elements and three bits --------------------------------------------------

Operation = Callable[[Any, Any, Sequence[Any]], Steps[Any]]
OPERATIONS: dict[str, Operation] = {
    "bit_and of 3": lambda p, _, bits: p.bit_and.steps(*bits),
    "inject": lambda p, x, bits: p.inject.steps(bits[0], x),
    "inject_sums": lambda p, x, bits: p.inject_sums.steps(bits[:2], x, [BitSum((1, 1), (0, 5))]),
    "mul": lambda p, x, _: p.bilinear.steps(MUL, x, x),
    "truncate": lambda p, x, _: p.truncate.steps(x.divided(SHIFT)),
    "sign": lambda p, x, _: p.sign.steps(x),
    "is_zero": lambda p, x, _: p.is_zero.steps(x),
}


class Operands:
    """Secrets of all trials, shared at once: a number, and three bits, for each.

    They are refreshed: of three parts of an input its owner knows all.
    """

    def __init__(self, p: Any, seed: int, trials: int) -> None:
        draw = torch.Generator().manual_seed(seed)
        self.numbers = torch.randint(-200, 200, (trials,), generator=draw)
        self.bits = torch.randint(0, 2, (3 * trials, 1), generator=draw)
        x = p.share(self.numbers.to(p.ring.dtype), 1, limit=1 << 9)
        self._x, self._b = p.refresh(x), p.refresh(p.share_bits(self.bits, 2, (1,), 3 * trials))

    def of(self, trial: int) -> tuple[Any, list[Any]]:
        rows = [3 * trial + i for i in range(3)]
        return self._x[trial : trial + 1], [self._b.planes(row, row + 1) for row in rows]

    def secrets(self) -> list[tuple[int, ...]]:
        """Of each trial, the low bit of the number, and the bits."""
        return _by_trial(self.numbers, self.bits)

    def known(self, p: Any) -> list[tuple[int, ...]]:
        """The same bits of the terms that this party knows."""
        if isinstance(p, ReplicatedMalicious):  # each party knows two of three parts
            return _by_trial(*(sum(one.parts.values()) for one in (self._x, self._b)))
        return _by_trial(p.known(self._x), p.known_bits(self._b))


def _by_trial(numbers: Any, bits: Any) -> list[tuple[int, ...]]:
    """Lowest bits: of a number and three rows of bits for each trial."""
    low = torch.cat([numbers.reshape(-1, 1), bits.reshape(-1, 3)], 1) & 1
    return [tuple(row) for row in low.tolist()]


def computed(p: Any, name: str, x: Any, bits: Sequence[Any]) -> Steps[Any]:
    """Runs an operation; of products that are verified later, also what verifies them."""
    made = yield from OPERATIONS[name](p, x, bits)
    if isinstance(p, ReplicatedMalicious):
        claims, p.claims = p.claims, Claims()
        yield from check_claims(p, [claims])
    return made


def trials(
    session: Session, name: str, party: int, changes: Sequence[Manipulation], seed: int
) -> list[Trial]:
    """Runs the operation once for each change, which the party makes in one of its messages.

    Trials run side by side, SIDE_BY_SIDE at a time, and share rounds but nothing else: each has
    secrets and views of its own, and a comparison of them.
    """
    p: Any = session.protocol
    operands = Operands(p, seed, len(changes))
    p.verify()
    ends: list[tuple[bool, bool]] = []
    for start in range(0, len(changes), SIDE_BY_SIDE):
        numbers = range(start, min(start + SIDE_BY_SIDE, len(changes)))
        each = [type(p)(p.context) for _ in numbers]
        calls = [computed(one, name, *operands.of(i)) for one, i in zip(each, numbers, strict=True)]
        if session.rank == party:
            calls = [manipulated(call, changes[i]) for call, i in zip(calls, numbers, strict=True)]
        made = drive(p.context, together(*calls))
        changed = made if session.rank == party else [False] * len(each)
        ends += zip(_abort(each), changed, strict=True)
    return [
        Trial(secrets, known, aborted, changed)
        for secrets, known, (aborted, changed) in zip(
            operands.secrets(), operands.known(p), ends, strict=True
        )
    ]


def manipulated(call: Steps[Any], change: Manipulation) -> Steps[bool]:
    """Runs a call with a change of one of its messages; returns whether it made a difference."""
    number, changed, received = 0, False, None
    while True:
        try:
            one = call.send(received)  # type: ignore[arg-type]
        except StopIteration:
            return changed
        send = dict(one.send)
        for peer, tensors in one.send.items():
            if number == change.number:
                send[peer] = changed_words(tensors, change)
                changed = not all(map(torch.equal, send[peer], tensors))
            number += 1
        received = yield Round(send, one.receive, one.ahead)


def _abort(each: Sequence[Any]) -> list[bool]:
    """Compares the views of each trial, and returns which runs would end."""
    aborted: list[bool] = []

    def note(total: int, _operation: int) -> bool:
        aborted.append(total != 0)
        return True

    for p in each:
        p.views.agree = note
    drive(each[0].context, together(*(p.compare_views.steps() for p in each)))
    return aborted


def sent_in(session: Session, name: str) -> list[Any]:
    """The messages of this party in an operation."""
    p: Any = session.protocol
    x, bits = Operands(p, 0, 1).of(0)
    tap = Tap(session.mesh, keeps=True)
    drive(p.context, computed(p, name, x, bits))
    return list(tap.sent)


def drawn_changes(
    name: str, party: int, count: int, seed: int, run: Mapping[str, Any] = RUN
) -> list[Manipulation]:
    """Changes of the messages of a party in an operation.

    Each message is changed in each way equally often, at a place that is drawn.
    """
    messages = tacit.run(sent_in, name, **run)[party]
    options = [how for sent in messages for how in manipulations_of(sent, tuple(CHANGES))]
    draw = Random(seed)
    order = draw.sample(options, len(options))
    return [how._replace(seed=draw.randrange(1 << 30)) for how in islice(cycle(order), count)]


def cheated(
    name: str,
    party: int,
    changes: Sequence[Manipulation],
    seed: int,
    run: Mapping[str, Any] = RUN,
) -> list[Trial]:
    """What a party sees in trials, in each of which it makes a change.

    A run ends for all honest parties or for none.
    """
    by_party = tacit.run(trials, name, party, changes, seed, **run)
    ends = [[one.aborted for one in found] for found in by_party]
    del ends[party]
    assert all(one == ends[0] for one in ends)
    return [one._replace(aborted=end) for one, end in zip(by_party[party], ends[0], strict=True)]


# Guesses ------------------------------------------------------------------------------------------


class Guesses(NamedTuple):
    """What party 2 can compute after it has dealt party 0 a wrong product of two bits.

    The result of party 0 is then wrong if its mask of the third bit is 1. hashes: of what it shares
    with party 0, for each guess. shown: that of party 0. totals: what the comparison of party 2
    gives, for each guess.
    """

    mask: int
    hashes: tuple[bytes, bytes]
    shown: bytes
    totals: tuple[int, int]


def guesses(session: Session, count: int, change: Manipulation | None) -> list[Any]:
    """At party 0 its mask and hash of each trial, at party 2 its guesses."""
    p: Any = session.protocol
    operands, found = Operands(p, 1, count), []
    masks = operands.known(p)
    tap = Tap(session.mesh) if session.rank == 2 else None
    for number in range(count):
        fresh = type(p)(p.context)
        _, bits = operands.of(number)
        added = _noting(fresh) if tap is not None else []
        if tap is not None:
            tap.ask([change] if change else [])
        fresh.bit_and(*bits)
        if tap is not None:
            tap.ask([])
        shown = fresh.views.digest((0, 2)) if session.rank in (0, 2) else b""
        if tap is not None:
            found.append(_guessed(fresh, added, shown))
            continue
        found.append((masks[number][3], shown))
        _abort([fresh])
    return found


def _noting(p: Any) -> list[tuple[Viewers, list[Any]]]:
    """Returns the list to which everything is added that the views of p get from now on."""
    added, add = [], p.views.add

    def note(viewers: Viewers, values: Sequence[Any], *, alike: Viewers = ()) -> None:
        added.append((viewers, [value.clone() for value in values]))
        add(viewers, values, alike=alike)

    p.views.add = note
    return added


def _guessed(p: Any, added: Sequence[Any], own: bytes) -> tuple[Any, Any]:
    """The hashes of both guesses, and what the comparison gives for them."""
    hashes = []
    for guess in (0, 1):
        views = HashedViews(p.context)
        for viewers, values in added:
            changes = guess if viewers == RESULTS else 0
            views.add(viewers, [value ^ changes for value in values])
        hashes.append(views.digest((0, 2)))
    drawn, totals = [], []
    draw = p.context.draw_planes
    p.context.draw_planes = lambda *where: drawn.append(draw(*where)) or drawn[-1]
    p.views.agree = lambda total, _: totals.append(total) or True
    drive(p.context, p.compare_views.steps())
    p.context.draw_planes = draw
    factor = _number(drawn[0][2, 0])  # of the parties 0 and 2, for party 2
    before = int.from_bytes(own, "little")
    others = [int.from_bytes(one, "little") - before for one in hashes]
    return tuple(hashes), tuple((totals[0] - factor * by) % PRIME for by in others)


def guessed(count: int, change: Manipulation | None = FLIP) -> list[Guesses]:
    """Trials of party 2, which makes this change."""
    by_party = tacit.run(guesses, count, change, **RUN)
    pairs = zip(by_party[0], by_party[2], strict=True)
    return [Guesses(mask, hashes, shown, totals) for (mask, shown), (hashes, totals) in pairs]


# The statistics ----------------------------------------------------------------------------------


def dependence(seen: Sequence[Trial], operand: int) -> float:
    """The chi-square statistic of a secret bit against what the cheating party sees: 3 degrees."""
    table = torch.zeros(2, 4, dtype=torch.float64)
    for one in seen:
        table[one.secrets[operand], 2 * one.known[operand] + one.aborted] += 1
    expected = table.sum(1, keepdim=True) * table.sum(0) / table.sum()
    return float(((table - expected) ** 2 / expected.clamp(min=1e-9)).sum())


# The published messages --------------------------------------------------------------------------


def published_and(count: int, seed: int) -> list[Trial]:
    """AND of three bits, where party 3 deals party 0 products of masks that no other compares.

    Party 0 multiplies them with masked bits: an error of the product of two masks is multiplied
    with the third masked bit, and the run ends if that is 1.
    """
    draw, found = Random(seed), []
    for _ in range(count):
        secrets, masks = (tuple(draw.randrange(2) for _ in range(3)) for _ in range(2))
        masked = [s ^ a for s, a in zip(secrets, masks, strict=True)]
        dealt = _mask_products(masks)
        dealt[frozenset({0, 1})] ^= 1  # what party 3 adds
        known = secrets[0] & secrets[1] & secrets[2]  # by the other evaluation
        found.append(Trial((0, *secrets), (0, *masks), _evaluated(masked, dealt) != known))
    return found


def _mask_products(masks: Sequence[int]) -> dict[frozenset[int], int]:
    sets = [frozenset(i for i in range(3) if chosen >> i & 1) for chosen in range(8)]
    return {some: int(all(masks[i] for i in some)) for some in sets}


def _evaluated(masked: Sequence[int], products: dict[frozenset[int], int]) -> int:
    """The sum over all sets of the product of the masks in it and of the masked bits outside."""
    total = 0
    for some, product in products.items():
        total ^= product & int(all(masked[i] for i in range(3) if i not in some))
    return total


def published_injection(count: int, seed: int) -> list[Trial]:
    """b x, where party 3 deals party 0 its mask bit in the ring, which is multiplied with m.

    An error of half the ring survives if the masked number is odd.
    """
    draw, found, half, ring = Random(seed), [], 1 << 63, 1 << 64
    for _ in range(count):
        x, mask, y = draw.randrange(-(1 << 40), 1 << 40), draw.randrange(ring), draw.randrange(2)
        masked = (x - mask) % ring
        product = (y + half) * masked % ring  # party 0, with the error
        aborted = product != y * masked % ring
        found.append(Trial((x & 1,), (mask & 1,), aborted))
    return found
