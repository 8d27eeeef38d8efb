"""Merges the rounds of a recorded plan that do not depend on each other, alike at all parties.

The parties tell each other what their rounds depend on: what a program computes of what is public.
Results, masks and bytes stay the same; rounds become fewer. The memory may grow to so much that it
is not worth it: then rounds are merged within parts of the function only, or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import NamedTuple

from .memory_use import MemoryUse
from .merged_rounds import merged, told_by, united
from .plan import Begin, Exchange, Finish, Messages, Step
from .plan_recorder import PlanRecorder
from .relocation import Relocation, new_addresses, peak_bytes
from .step_order import NEEDED, RECEIVING, SENDING, Dependence, Moment

WINDOWS = (1, 4, 16)  # parts of the function within which rounds are merged, tried in this order
GROWTH = 1.5  # of the memory, at most
SMALL_BYTES = 1 << 24  # of memory, which always may be taken
UNKNOWN = "unknown"

Gathered = Callable[[str], list[str]]


class MergedOrder(NamedTuple):
    """The order of a party's steps when rounds are merged. is_shorter: whether any are."""

    moments: Sequence[Moment]
    is_shorter: bool


def merged_order(
    memory: MemoryUse, fixed: Set[int], gathered: Gathered, spare: int = 0
) -> MergedOrder | None:
    """Returns the order of recorded steps with the fewest rounds, or None to leave it.

    All parties call it, once, and all get one or none. fixed: the numbers of blocks that somebody
    holds. gathered: returns the texts of all parties, by rank. spare: bytes of memory that may be
    taken in any case.
    """
    dependence = Dependence(memory)
    own = "\n".join(one.encode() for one in dependence.rounds())
    told = gathered(own if memory.is_known else UNKNOWN)
    if UNKNOWN in told:
        return None
    rounds = united(told_by(party, text) for party, text in enumerate(told))
    limit = max(SMALL_BYTES, spare, GROWTH * peak_bytes(dependence.recorded_order(), fixed))
    for num_windows in WINDOWS:
        groups = merged(rounds, num_windows)
        order = dependence.order(groups)
        fits = peak_bytes(order, fixed) <= limit
        if all(text == "fits" for text in gathered("fits" if fits else "too large")):
            return MergedOrder(order, len(groups) < len(rounds))
    return None


def merge_rounds(recorder: PlanRecorder, gathered: Gathered) -> None:
    """Replaces the plan of a recorder by one with fewer rounds. All parties call it, once."""
    fixed = recorder.arena.used_blocks()
    found = merged_order(recorder.memory, fixed, gathered)
    recorder.memory = MemoryUse(recorder.arena)  # the recorded steps are not needed any more
    if found is not None:
        addresses = new_addresses(recorder.arena, found.moments, fixed)
        _apply(recorder, found.moments, Relocation(recorder.arena, addresses))


def _apply(recorder: PlanRecorder, order: Sequence[Moment], new: Relocation) -> None:
    """Puts an order in the place of the recorded one, with the messages of its rounds."""
    recorded = [step for step in recorder.plan.steps if isinstance(step, Exchange)]
    messages = dict(zip(recorded, recorder.messages, strict=True))
    recorder.messages = [
        Messages.merged([messages[use.step] for use in moment.uses])  # type: ignore[index]
        for moment in order
        if moment.kind == SENDING
    ]
    moved = {id(one.uses[0].step): new.step(one.uses[0]) for one in order if one.kind == NEEDED}
    recorder.plan.steps = list(_steps(order, new, moved))
    guarded = {id(step) for step in recorder.guarded}
    recorder.guarded = [step for number, step in moved.items() if number in guarded]


def _steps(order: Sequence[Moment], new: Relocation, moved: Mapping[int, Step]) -> Iterator[Step]:
    """Yields the steps of an order; between a round's sending and receiving no other one begins.

    moved: those that are no rounds, at their new addresses, by the identity of the recorded ones.
    """
    for kind, uses, operation in order:
        if kind == SENDING:
            assert operation is not None
            exchange = new.exchange(uses, operation)
            yield Begin(exchange)
        elif kind == RECEIVING:
            yield Finish(exchange)
        else:
            yield moved[id(uses[0].step)]
