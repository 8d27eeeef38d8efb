"""Which rounds of a recorded function can be one, decided alike by all parties.

Each party knows which rounds its messages of a round depend on. The union of what the parties know
gives each round a level: one more than the highest level of the rounds that some message of it
depends on. Rounds of one level do not depend on each other, so they become one, with one message
for each peer. A message that is sent ahead waits for no round; it is sent with others that are
needed at the same level, just before that.

NOTE [order by dependence]: a round may move before another one if no message of it is computed from
what the other one brought. Where a party must have received something before it sends what is
independent of it, such as an opening after a comparison, a step between them says so (`Check`).
Protocols that have no such step there are not recordable (`ProtocolCore.is_recordable`). A party
may invent dependences, which cost rounds, but hide none that others know.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import NamedTuple

from .told import misleading

MOST_TENSORS = 512  # of one party in a message; the table of a message is limited


class RecordedRound(NamedTuple):
    """A round of a recorded function.

    operation: its number, the same at all parties. num_tensors: the most that a party has to do
    with. needs: the operations of rounds whose messages those of this round depend on.
    """

    operation: int
    ahead: bool
    num_tensors: int
    needs: Set[int]

    def encode(self) -> str:
        """Returns it as a line of text."""
        return " ".join(map(str, (self.operation, int(self.ahead), self.num_tensors, *self.needs)))

    @classmethod
    def decode(cls, line: str) -> RecordedRound:
        """Returns the round of a line; raises ValueError if it is none."""
        operation, ahead, num_tensors, *needs = map(int, line.split())
        if num_tensors < 0 or not all(0 <= other < operation for other in needs):
            raise ValueError(line)
        return cls(operation, bool(ahead), num_tensors, frozenset(needs))


def told_by(party: int, text: str) -> list[RecordedRound]:
    """Returns the rounds that a party tells of, a line each. Raises ProtocolError if it does not.

    They need no others than those.
    """
    try:
        rounds = [RecordedRound.decode(line) for line in text.splitlines()]
    except ValueError:
        rounds = []
    known = {one.operation for one in rounds}
    if len(known) != text.count("\n") + bool(text) or not all(x.needs <= known for x in rounds):
        raise misleading(party, "which rounds of a repeated function it takes part in")
    return rounds


def united(parties: Iterable[Iterable[RecordedRound]]) -> list[RecordedRound]:
    """Returns all rounds in their recorded order, with what they need at any party."""
    found: dict[int, RecordedRound] = {}
    for rounds in parties:
        for one in rounds:
            known = found.get(one.operation, one)
            most = max(known.num_tensors, one.num_tensors)
            needs = known.needs | one.needs
            found[one.operation] = known._replace(num_tensors=most, needs=needs)
    return [found[operation] for operation in sorted(found)]


def merged(rounds: Sequence[RecordedRound], num_windows: int = 1) -> list[tuple[int, ...]]:
    """Returns the operations of the rounds that become one, in the order of the new rounds.

    rounds: in their recorded order. num_windows: the recorded order is cut into so many parts of
    equal length, and rounds of different parts are not merged, but for those sent ahead.
    """
    levels = _levels(rounds, num_windows)
    slots = {one.operation: (levels[one.operation], 0) for one in rounds if not one.ahead}
    slots |= _slots_ahead(rounds, slots)
    groups: dict[tuple[int, int], list[RecordedRound]] = {}
    for one in rounds:
        groups.setdefault(slots[one.operation], []).append(one)
    return [part for slot in sorted(groups) for part in _bounded(groups[slot])]


def _levels(rounds: Sequence[RecordedRound], num_windows: int) -> Mapping[int, int]:
    """Returns the level of each round; a round that is sent ahead adds none."""
    length = -(-len(rounds) // num_windows)
    levels: dict[int, int] = {}
    is_ahead = {one.operation: one.ahead for one in rounds}
    first = highest = 0
    for i, one in enumerate(rounds):
        if i and i % length == 0:
            first = highest + 1
        after = [levels[other] + (not is_ahead[other]) for other in one.needs]
        levels[one.operation] = max([0 if one.ahead else first, *after])
        if not one.ahead:
            highest = max(highest, levels[one.operation])
    return levels


def _slots_ahead(
    rounds: Sequence[RecordedRound], online: Mapping[int, tuple[int, int]]
) -> dict[int, tuple[int, int]]:
    """Returns when rounds are sent ahead: before the first round that needs them."""
    end = (1 + max((level for level, _ in online.values()), default=0), 0)
    slots, first_use = dict[int, tuple[int, int]](), dict[int, tuple[int, int]]()
    for one in reversed(rounds):
        slot = online.get(one.operation)
        if slot is None:
            level, place = first_use.get(one.operation, end)
            slot = slots[one.operation] = (level, place - 1)
        for other in one.needs:
            first_use[other] = min(slot, first_use.get(other, slot))
    return slots


def _bounded(group: Sequence[RecordedRound]) -> list[tuple[int, ...]]:
    """Returns the operations of a group, in parts whose messages are not too many tensors."""
    parts: list[list[int]] = []
    room = 0
    for one in group:
        if not parts or one.num_tensors > room:
            parts.append([])
            room = MOST_TENSORS
        room -= one.num_tensors
        parts[-1].append(one.operation)
    return [tuple(part) for part in parts]
