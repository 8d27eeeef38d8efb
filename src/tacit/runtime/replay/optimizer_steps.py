"""What optimizers compute with public numbers, in every replay: step counts and learning rates.

A step of an optimizer is Python code on public numbers, which calls operations on secrets. The plan
has those operations. Before each replay the code runs once more without them (`public_part.py`), so
that it counts, reads its settings and computes its factors, such as Adam's bias corrections.
Factors that differ from call to call are symbolic numbers of the plan; everything else must be as
it was recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_flatten, tree_unflatten

from ...fixedpoint.symbolic import CPU, Computations
from ...tensor import SecretTensor
from .buffers import equal_public, snapshot
from .public_part import Call, Step, is_public
from .schedule_state import ScheduleState

aten = torch.ops.aten
# Their rules compute with symbolic factors.
WITH_FACTORS = frozenset(
    getattr(aten, each + name + form)
    for name in ("add", "mul", "div", "addcdiv", "lerp")
    for form in ("", "_")
    for each in ("", "_foreach_")
)


class _PublicNumbers(NamedTuple):
    """The numbers in the state of a parameter, and its public tensors with copies of them."""

    state: dict[str, Any]
    numbers: dict[str, Any]
    tensors: list[tuple[Tensor, Tensor]]


class OptimizerSteps:
    """The steps of optimizers in a function that is observed or recorded.

    before: those of the call before; factors that differ from theirs become symbolic.
    device: of the ring elements of those. inputs: the symbolic numbers, as they are now.
    """

    def __init__(self, before: OptimizerSteps | None = None, device: torch.device = CPU) -> None:
        self.inputs: list[float] = []
        self.running: Step | None = None
        self._steps: list[Step] = []
        self._unknown: set[int] = set()
        self._before = [] if before is None else before._steps
        self._computations = Computations(device)
        self._settings = _settings(self._before)
        self._keeps_settings = True
        self._paused: Step | None = None  # while its closure runs
        self.schedulers: list[LRScheduler] = []  # whose steps are noted
        self._is_scheduling = False
        self._order: list[Step | LRScheduler] = []
        self._order_before = [] if before is None else before._order
        self._scheduled: dict[int, ScheduleState] = {}  # before their first steps
        self._counted: dict[int, list[_PublicNumbers]] = {}  # by optimizer, before its first step

    def begin(self, optimizer: Optimizer) -> None:
        """Notes that a step begins. Those of users, or within others, are code as any other."""
        is_torchs = type(optimizer).step.__module__.startswith("torch.optim.")
        if not is_torchs or self.running is not None or self._paused is not None:
            self._unknown.add(id(optimizer))
            return
        with _disable_current_modes():  # the function does not read this
            counted = [*map(_public, optimizer.state.values())]
        self._counted.setdefault(id(optimizer), counted)
        self.running = Step(optimizer)
        self._steps.append(self.running)
        self._order.append(self.running)
        self._note_settings()

    def pause(self) -> None:
        """Notes that the step calls its closure, which is no part of it."""
        self._paused, self.running = self.running, None

    def go_on(self) -> None:
        """Notes that the closure has ended."""
        self.running, self._paused = self._paused, None
        if self.running is not None:
            self.running.note_gradients()
            self._note_settings()

    def _note_settings(self) -> None:
        """Notes whether something else than a scheduler has changed settings."""
        self._keeps_settings &= not _differ(self._settings, _settings(self._before))

    @contextmanager
    def watching(self, schedulers: Sequence[LRScheduler]) -> Iterator[None]:
        """In the block, steps of these schedulers are noted."""
        self.schedulers = [one for one in schedulers if "step" not in vars(one)]
        for one in self.schedulers:
            one.step = partial(self._step_scheduler, one)  # type: ignore[method-assign]
        try:
            yield
        finally:
            for one in self.schedulers:
                vars(one).pop("step", None)

    def _step_scheduler(self, one: LRScheduler, *args: Any, **kwargs: Any) -> None:
        """Does a step of a scheduler, and notes it if torch's code needs nothing else for it."""
        step = type(one).step
        is_torchs = step.__module__.startswith("torch.optim.") and not args and not kwargs
        if not is_torchs or self._is_scheduling or self.running is not None:
            step(one, *args, **kwargs)
            return
        self._note_settings()
        with _disable_current_modes():  # it computes with public numbers, in each replay, too
            self._scheduled.setdefault(id(one), ScheduleState(one))
            self._is_scheduling = True
            try:
                step(one)
            finally:
                self._is_scheduling = False
        self._order.append(one)
        self._settings = _settings(self._before)

    def end(self) -> None:
        """Notes that the step has ended."""
        self.running = None

    @property
    def optimizers(self) -> list[Optimizer]:
        """The optimizers whose public numbers may change."""
        found = {id(step.optimizer): step.optimizer for step in self._steps}
        return [one for number, one in found.items() if number not in self._unknown]

    def note(self, func: OpOverload, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """Notes an operation of the step; returns its arguments, with symbolic numbers."""
        assert self.running is not None
        leaves, spec = tree_flatten((args, kwargs))
        with _disable_current_modes():  # the function does not read this
            call, place = Call.of(func, leaves), len(self.running.calls)
            public = [x.clone() if isinstance(x, Tensor) else x for x in filter(is_public, leaves)]
        self.running.calls.append(call)
        factors = self._changed_factors(call, place)
        self.running.symbolic |= {(place, i) for i in factors}
        self.inputs += [call.public[i] for i in factors]
        for i in factors:
            public[i] = self._computations.input(call.public[i])
        rest = iter(public)
        given = [next(rest) if is_public(x) else x for x in leaves]
        made: tuple[Any, Any] = tree_unflatten(given, spec)
        return made

    def _changed_factors(self, call: Call, place: int) -> list[int]:
        """Which of a call's public arguments are factors that were others, or symbolic, before."""
        step = len(self._steps) - 1
        if step >= len(self._before) or place >= len(self._before[step].calls):
            return []
        before, symbolic = self._before[step].calls[place], self._before[step].symbolic
        if before.func is not call.func or call.func.overloadpacket not in WITH_FACTORS:
            return []
        pairs = enumerate(zip(before.public, call.public, strict=False))
        return [
            i
            for i, (old, new) in pairs
            if type(new) is float and (old != new or (place, i) in symbolic)
        ]

    def difference(self, written: Iterable[Tensor]) -> str | None:
        """Returns why the steps cannot be replayed without the code around them, or None.

        written: the public tensors that are written outside of the steps.
        """
        self._note_settings()
        if not self._keeps_settings:
            return "it changes settings of an optimizer (call its scheduler outside)"
        if _identities(self._order) != _identities(self._order_before):
            return "optimizers and schedulers step in another order than before"
        own = {id(x) for state in self._states() for x in state.values()}
        if any(id(x) in own for x in written):
            return "it writes to the state of an optimizer"
        return None

    def undo(self) -> None:
        """Lets optimizers count from where they were before the function."""
        for counted in self._counted.values():
            _put_back(counted)
        for state in self._scheduled.values():
            state.put_back()

    def end_recording(self) -> None:
        """Prepares the numbers of the first replay, and releases the steps of the call before."""
        self._computations.upload()
        self._before, self._counted, self._order_before, self._scheduled = [], {}, [], {}
        self._settings = _settings(self._steps)

    def advance(self) -> bool:
        """Does the public part of all steps; False, and nothing changes, if they would differ."""
        before = [*map(_public, self._states())]
        counts = any(one.tensors for one in before)
        schedules = [ScheduleState(one) for one in self._order if isinstance(one, LRScheduler)]
        if not counts and not schedules and not _differ(self._settings, _settings(self._steps)):
            return True
        found = self._public_parts()
        if all(map(_fits, self._steps, found)) and self._update(found):
            self._settings = _settings(self._steps)
            return True
        _put_back(before)
        for state in schedules:
            state.put_back()
        return False

    def _public_parts(self) -> list[list[Call] | None]:
        """Does what the steps of optimizers and schedulers do in public, in their order."""
        found = []
        for one in self._order:
            if isinstance(one, Step):
                found.append(one.public_part())
            else:
                type(one).step(one)
        return found

    def _states(self) -> Iterator[dict[str, Any]]:
        for optimizer in {id(step.optimizer): step.optimizer for step in self._steps}.values():
            yield from optimizer.state.values()

    def _update(self, found: Sequence[Sequence[Call] | None]) -> bool:
        """Computes with new factors; False if rules would decide differently for them."""
        pairs = [(step, calls) for step, calls in zip(self._steps, found, strict=True) if calls]
        inputs = [calls[k].public[i] for step, calls in pairs for k, i in sorted(step.symbolic)]
        if not self._computations.update(inputs):
            return False
        self.inputs = inputs
        return True


def _identities(order: Sequence[Step | LRScheduler]) -> list[int]:
    return [id(one.optimizer if isinstance(one, Step) else one) for one in order]


def _settings(steps: Sequence[Step]) -> list[Any]:
    """The settings of the optimizers now."""
    groups = [group for step in steps for group in step.optimizer.param_groups]
    return [snapshot(x) for group in groups for name, x in group.items() if name != "params"]


def _differ(old: Sequence[Any], new: Sequence[Any]) -> bool:
    return len(old) != len(new) or not all(map(equal_public, old, new))


def _fits(step: Step, found: Sequence[Call] | None) -> bool:
    """Whether calls are those of the step, but for symbolic numbers."""
    if found is None:
        return False
    return all(
        len(new.public) == len(old.public)
        and all(
            (type(b) is float and (k, i) in step.symbolic) or equal_public(a, b)
            for i, (a, b) in enumerate(zip(old.public, new.public, strict=True))
        )
        for k, (old, new) in enumerate(zip(step.calls, found, strict=True))
    )


def _public(state: dict[str, Any]) -> _PublicNumbers:
    numbers = {name: x for name, x in state.items() if not isinstance(x, Tensor)}
    tensors = [x for x in state.values() if isinstance(x, Tensor)]
    copies = [(x, x.clone()) for x in tensors if not isinstance(x, SecretTensor)]
    return _PublicNumbers(state, numbers, copies)


def _put_back(states: Sequence[_PublicNumbers]) -> None:
    for one in states:
        one.state.update(one.numbers)
        for x, held in one.tensors:
            x.copy_(held)
