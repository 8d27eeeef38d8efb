"""The order of a party's steps when rounds are merged.

A round has four phases: what its messages need, the sending, the waiting, the receiving. A step
that a message needs runs before that message, already while this party waits for the round before
if it can. Other steps run while it waits for the next round.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from .arena import Block
from .memory_use import MemoryUse, StepUse
from .merged_rounds import RecordedRound
from .plan import Exchange

NEEDED, SENDING, WAITING, RECEIVING = range(4)
PHASES = 4
NEVER = 1 << 62


class Moment(NamedTuple):
    """One thing in the order: a step, or the sending or receiving of all that a round consists of.

    kind: SENDING or RECEIVING for a round, else NEEDED. operation: of a round, at all parties.
    """

    kind: int
    uses: tuple[StepUse, ...]
    operation: int | None = None

    @property
    def blocks(self) -> list[Block]:
        """The blocks that are used."""
        return [
            block
            for use in self.uses
            for block in use.blocks
            if self.kind == NEEDED or (block.number in use.written) == (self.kind == RECEIVING)
        ]


class Dependence:
    """What depends on what among the recorded steps of a party."""

    def __init__(self, memory: MemoryUse) -> None:
        self._uses = memory.uses
        self._before = memory.predecessors()
        self._rounds = {
            use.step.operation: i
            for i, use in enumerate(self._uses)
            if isinstance(use.step, Exchange)
        }

    def rounds(self) -> list[RecordedRound]:
        """Returns the rounds of this party, with those that they need, but for indirect ones."""
        numbers = {step: number for number, step in enumerate(self._rounds.values())}
        needed = self._needed_rounds(numbers)
        operations = list(self._rounds)
        of_rounds = [needed[i] for i in numbers]
        found = []
        for i in numbers:
            step = self._uses[i].step
            assert isinstance(step, Exchange)
            needs = frozenset(operations[number] for number in _direct(needed[i], of_rounds))
            most = max(map(len, (*step.sent.values(), *step.places.values())), default=0)
            found.append(RecordedRound(step.operation, step.ahead, most, needs))
        return found

    def _needed_rounds(self, numbers: Mapping[int, int]) -> list[int]:
        """Returns for each step the rounds that it depends on, as a set of bits."""
        needed = [0] * len(self._before)
        for i, before in enumerate(self._before):
            for other in before:
                needed[i] |= needed[other]
                if other in numbers:
                    needed[i] |= 1 << numbers[other]
        return needed

    def recorded_order(self) -> list[Moment]:
        """Returns the steps in the order in which they were recorded."""
        return [Moment(NEEDED, (use,)) for use in self._uses]

    def order(self, groups: Sequence[Sequence[int]]) -> list[Moment]:
        """Returns the order for new rounds, each of these operations, of any party."""
        first = [group[0] for group in groups if any(o in self._rounds for o in group)]
        own = [[self._rounds[o] for o in group if o in self._rounds] for group in groups]
        own = [group for group in own if group]
        group_of = {step: number for number, group in enumerate(own) for step in group}
        found = [
            (phase, i, Moment(NEEDED, (self._uses[i],)))
            for i, phase in enumerate(self._phases(group_of, len(own)))
            if i not in group_of
        ]
        for number, group in enumerate(own):
            uses = tuple(self._uses[i] for i in group)
            for kind in (SENDING, RECEIVING):
                moment = Moment(kind, uses, first[number])
                found.append((PHASES * number + kind, 0, moment))
        return [moment for *_, moment in sorted(found, key=lambda one: one[:2])]

    def _phases(self, group_of: Mapping[int, int], num_groups: int) -> list[int]:
        """Returns for each step the phase in which it runs."""
        due = self._due(group_of)
        ready = [-1] * len(due)  # the last round whose messages a step depends on
        phases = [0] * len(due)
        for i, before in enumerate(self._before):
            ready[i] = max((group_of.get(other, ready[other]) for other in before), default=-1)
            after = max((phases[other] for other in before), default=0)
            phases[i] = _phase(due[i], ready[i], after)
        return [min(phase, PHASES * num_groups) for phase in phases]

    def _due(self, group_of: Mapping[int, int]) -> list[int]:
        """Returns for each step the first round whose messages need it, or NEVER."""
        due = [group_of.get(i, NEVER) for i in range(len(self._before))]
        for i in reversed(range(len(due))):
            for other in self._before[i]:
                due[other] = min(due[other], due[i])
        return due


def _phase(due: int, ready: int, after: int) -> int:
    """Returns when a step runs that is due for a round; after: the latest of those before it."""
    assert ready < due
    if due == NEVER:
        phase = max(PHASES * (ready + 1) + WAITING, after)
        return phase + WAITING if phase % PHASES == NEEDED else phase
    return PHASES * due + NEEDED if ready == due - 1 else PHASES * (due - 1) + WAITING


def _direct(needed: int, of_rounds: Sequence[int]) -> list[int]:
    """Returns the rounds in a set of bits that no other one in it needs."""
    found = []
    while needed:
        last = needed.bit_length() - 1
        found.append(last)
        needed &= ~(of_rounds[last] | 1 << last)
    return found
