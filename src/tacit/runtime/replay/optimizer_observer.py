"""Finds what optimizers do in a function: operations on secrets, and code on public numbers."""

from __future__ import annotations

from collections.abc import Callable, Set
from typing import Any

from torch._ops import OpOverload
from torch.optim import Optimizer

from ...kernels.dispatch_mode import leaves
from ...ring.drawn_numbers import Drawn
from ...tensor.secret import SecretTensor
from ...tensor.trace import Trace
from .optimizer_steps import OptimizerSteps
from .seen_operands import SeenOperands


class OptimizerObserver(Trace):
    """Watches the operations of one thread, and those of optimizers' steps apart.

    What a step computes with public numbers is not recorded: it runs before each replay.
    """

    def __init__(self) -> None:
        super().__init__()
        self.steps = OptimizerSteps()
        self.operands = SeenOperands()
        self.bounds: dict[int, Drawn] = {}  # of numbers that may differ, by their order in the call
        self.reveals: list[Callable[[], None]] = []  # asks the policy for each of a recorded call

    def guards_hold(self) -> bool:
        """Whether all would be decided as recorded, with what public arguments are now."""
        return True

    def begin_step(self, optimizer: Optimizer) -> None:
        self.steps.begin(optimizer)

    def begin_closure(self) -> None:
        self.steps.pause()

    def end_closure(self) -> None:
        self.steps.go_on()

    def end_step(self) -> None:
        self.steps.end()

    @property
    def followed_optimizers(self) -> Set[int]:
        return frozenset(map(id, self.steps.optimizers))

    def note_call(self, func: OpOverload, args: Any, kwargs: Any) -> tuple[Any, Any]:
        if self.steps.running is None:
            return args, kwargs
        return self.steps.note(func, args, kwargs)

    def __torch_dispatch__(
        self, func: OpOverload, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if self.steps.running is None or self._is_in_operation:
            return self._watched(func, types, args, kwargs)
        if any(isinstance(x, SecretTensor) for x in leaves((args, kwargs))):
            return NotImplemented
        return func(*args, **(kwargs or {}))  # an optimizer's public part, which runs in replays

    def _watched(self, func: OpOverload, types: Any, args: Any, kwargs: Any) -> Any:
        return super().__torch_dispatch__(func, types, args, kwargs)
