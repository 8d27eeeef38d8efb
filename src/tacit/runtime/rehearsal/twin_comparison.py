"""Where the threads of a rehearsal meet: each operation compared with its float64 twin.

Every member adds what it holds after an operation. The last one to come computes the twin and
compares, in its own thread and at its own place in the program, so that nobody waits. A problem is
noted where it arises: what is computed from a result that is wrong already is not judged.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Condition
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from ...errors import Error, RangeError, lines_of, lines_text, rendered, statement
from ...fixedpoint import Numbers
from ...fixedpoint.format import largest_of
from ...nn.validate import Problem
from ...tensor.debug import first_only, has_steps, judge
from ..places import label, module_label
from .arguments import leaves
from .holdings import Holding, opened
from .public_calls import PublicCalls
from .twins import Twins, View

ROUGH = 2.0**-3  # an error that is larger, relative to the largest element, is precision lost
UNITS = 4.0  # errors of so many units are rounding
WAIT_SECONDS = 0.05  # between two looks whether another member has failed

Held = dict[int, Holding | None]


@dataclass
class Step:
    """One operation as a member saw it, with views in the place of secrets.

    index: its place among the operations of the program.
    reads: what the member holds of operands that no operation before had made.
    results: the place of each new secret in the flat results, and its number; made: what the member
    holds of these. writes: what it holds of the operands that were written to.
    unbounded: results and writes that may leave the range, because they wait for a later operation.
    gradients: whether these are gradients, of which small ones vanish in every training.
    failed: the operation has no result; its operands are all that counts.
    """

    index: int
    func: OpOverload | None
    args: Any
    kwargs: Any = field(default_factory=dict)
    reads: Held = field(default_factory=dict)
    results: dict[int, int] = field(default_factory=dict)
    made: Held = field(default_factory=dict)
    writes: Held = field(default_factory=dict)
    unbounded: set[int] = field(default_factory=set)
    gradients: bool = False
    failed: bool = False


class Comparison:
    """The twins of a run, and the problems found so far. All members of it share one."""

    def __init__(self, members: int) -> None:
        self._members = members
        self.public_calls = PublicCalls(members)
        self._twins: Twins | None = None
        self._met = Condition()
        self._waiting: dict[int, list[Step]] = {}
        self._answers: dict[int, list[Any] | None] = {}
        self._labels: dict[int, str] = {}
        self._ended: deque[int] = deque()
        self._ends: Counter[int] = Counter()
        self._found: dict[tuple[str, str, str], tuple[int, Problem]] = {}
        self.broken: Exception | None = None
        self.count = 0

    @property
    def problems(self) -> list[Problem]:
        """What was found, in the order of the program."""
        found = list(self._found.values())
        return [problem for _, problem in sorted(found, key=lambda one: one[0])]

    def note(self, index: int, op: str, error: Error) -> None:
        """Adds what an error says of a step, with the module and the line of this thread, once."""
        error.locate()
        line = "".join(lines_text(*lines_of(error)))
        path, remedy = module_label() or "", rendered(error.remedy or "")
        problem = Problem(path, op, statement(error), remedy, line)
        self._found.setdefault((path, op, line), (index, problem))

    def forget(self, number: int) -> None:
        """Says that a member has no tensor of this cell any more. Takes no lock."""
        self._ended.append(number)

    def label(self, index: int) -> str:
        """Returns where the program is at a step, as the first member to come there found it."""
        found = self._labels.get(index)
        return self._labels.setdefault(index, label()) if found is None else found

    def add(self, n: Numbers, step: Step) -> None:
        """Adds a member's step; the last member of all compares."""
        with self._met:
            steps = self._waiting.setdefault(step.index, [])
            steps.append(step)
            if len(steps) < self._members:
                return
            del self._waiting[step.index]
            self.count += 1
            if self.broken is None:
                self._compare(n, steps)
            self._met.notify_all()

    def answer(self, index: int, running: Callable[[], None]) -> list[Any] | None:
        """Returns the results of a failed step on twins, once all members have added it.

        `running` raises if the run has ended.
        """
        with self._met:
            while index not in self._answers and self.broken is None:
                self._met.wait(WAIT_SECONDS)
                running()
            return self._answers.get(index)

    def _compare(self, n: Numbers, steps: Sequence[Step]) -> None:
        """Parties whose programs differ add steps that do not fit: then comparing ends."""
        if self._twins is None:
            self._twins = Twins(n)
        try:
            self._drop_ended(self._twins)
            self._compare_step(self._twins, steps)
        except Exception as error:
            self.broken = error

    def _drop_ended(self, twins: Twins) -> None:
        while self._ended:
            number = self._ended.popleft()
            self._ends[number] += 1
            if self._ends[number] == self._members:
                del self._ends[number]
                twins.drop(number)

    def _compare_step(self, twins: Twins, steps: Sequence[Step]) -> None:
        own = steps[-1]
        for number in own.reads:
            twins.drop(number)
            twins.keep(number, opened([step.reads[number] for step in steps]))
        views = [x for x in leaves((own.args, own.kwargs)) if isinstance(x, View)]
        doubtful = any(view.number in twins.doubtful for view in views)
        if own.func is None:
            self._answers[own.index] = list(map(twins.view, views)) if twins.know(views) else None
            return
        try:
            wanted = twins.computed(own.func, own.args, own.kwargs)
        except RangeError as problem:
            self.note(own.index, str(own.func), problem)
            wanted = None
        if own.failed:
            self._answers[own.index] = wanted
            return
        for place, number in own.results.items():
            want = wanted[place] if wanted is not None else None
            judged = not (place and first_only(own.func))
            held = [step.made[number] for step in steps]
            self._settle(twins, own, number, held, want, doubtful=doubtful, judged=judged)
        for number in own.writes:
            want = twins.whole(number) if wanted is not None else None
            held = [step.writes[number] for step in steps]
            self._settle(twins, own, number, held, want, doubtful=doubtful)

    def _settle(
        self,
        twins: Twins,
        step: Step,
        number: int,
        held: Sequence[Holding | None],
        want: Tensor | None,
        *,
        doubtful: bool,
        judged: bool = True,
    ) -> None:
        """Keeps the twin of a result; notes a problem if the result is not near it."""
        assert step.func is not None
        found = opened(held)
        if want is None or (found is not None and want.shape != found.shape):
            want = found
        elif judged and not doubtful and number not in step.unbounded:
            try:
                judge(twins.numbers, step.func, [want])
                want = want if found is None else _near(twins.numbers, step, held[0], found, want)
            except RangeError as problem:
                self.note(step.index, str(step.func), problem)
                doubtful = True
        twins.keep(number, want)
        (twins.doubtful.add if doubtful else twins.doubtful.discard)(number)


def _near(n: Numbers, step: Step, held: Holding | None, found: Tensor, want: Tensor) -> Tensor:
    """Returns the twin of a result that is near it; else raises RangeError.

    A decision near a tie is taken as on secrets: then both go on with the same choice.
    """
    assert step.func is not None
    assert held is not None
    if not want.is_floating_point():
        return found.clone()
    error, largest = found - want, largest_of(want)
    allowed = UNITS * 2.0**-n.fraction_bits + ROUGH * largest
    if has_steps(step.func):
        return torch.where(error.abs_() > allowed, found, want)
    if largest_of(error) > allowed:
        raise _rough(n)
    if not (step.writes or step.gradients) and 0 < largest < 2.0 ** -(held.fraction_bits + 1):
        raise _vanished(n, held.fraction_bits)
    return want


def _rough(n: Numbers) -> RangeError:
    return RangeError(
        "precision is lost: the result is far from that of float64",
        limit=f"one unit is 2^-{n.fraction_bits}, the range ends at 2^{n.range_bits}",
        remedy=_finer(n),
    )


def _vanished(n: Numbers, fraction_bits: int) -> RangeError:
    return RangeError(
        "all of the result is below half a unit, and becomes 0",
        limit=f"one unit is 2^-{fraction_bits}",
        remedy=_finer(n),
    )


def _finer(n: Numbers) -> str:
    return (
        f"scale it up, or give tacit.run more fraction_bits than {n.fraction_bits}; "
        "tacit.calibrate finds what a model needs"
    )
