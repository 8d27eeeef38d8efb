"""Finds whether a function can be recorded as a plan, and what of it changes from call to call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import contextmanager
from typing import Any
from weakref import ReferenceType, ref

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.optim import Optimizer
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_leaves

from ...fixedpoint import Numbers
from ...tensor.secret import SecretTensor
from ...tensor.trace import Trace, targets
from .argument_use import ArgumentUse, storage_of
from .optimizer_steps import OptimizerSteps
from .small_work import INTEGERS

aten = torch.ops.aten
READING = frozenset((aten._local_scalar_dense, aten.equal, aten.is_nonzero, aten.allclose))


READS = "it reads a number that may differ the next time"
READING_METHODS = frozenset((Tensor.tolist, Tensor.numpy, Tensor.__array__, Tensor.__dlpack__))


class _Reads(TorchFunctionMode):
    """Tells an observer of tensors that Python reads as a whole, which torch does not dispatch."""

    def __init__(self, observer: PlanObserver) -> None:
        super().__init__()
        self._observer = observer

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in READING_METHODS:
            self._observer.note_read(args[0])
        return func(*args, **(kwargs or {}))


class PlanObserver(Trace):
    """Finds whether a function can be recorded as a plan.

    Public random numbers are drawn anew by every replay, and public tensors that the function
    writes, such as a counter, are written anew: `public_state`. What Python reads is not read anew,
    so it must follow from other public tensors that were there before; writes to those are noticed.
    """

    def __init__(self) -> None:
        super().__init__()
        self._changing: set[int] = set()  # storages of numbers that may differ the next time
        self.steps = OptimizerSteps()
        self.arguments = ArgumentUse(())
        self._outside: set[int] = set()  # storages of what is made of existing public tensors
        self._revealed: list[ReferenceType[Tensor]] = []
        self._is_working = False  # an operation of torch is being noted or recorded

    @contextmanager
    def on(self, numbers: Numbers) -> Iterator[None]:
        with super().on(numbers), _Reads(self):
            yield

    def note_read(self, tensor: Tensor) -> None:
        """Notes that Python reads the elements of a public tensor."""
        if self._is_working or self._is_in_operation:
            return
        self.arguments.note_use([tensor])
        if not self._is_known(tensor):
            self.refuse(READS)

    def note_revealed(self, tensor: Tensor) -> None:
        self._changing.add(storage_of(tensor))
        self._revealed.append(ref(tensor))

    @property
    def keeps_revealed(self) -> bool:
        """Whether somebody still holds a tensor that was revealed."""
        return any(made() is not None for made in self._revealed)

    def begin_step(self, optimizer: Optimizer, *, has_closure: bool) -> None:
        self.steps.begin(optimizer, has_closure=has_closure)

    def end_step(self) -> None:
        self.steps.end()

    @property
    def followed_optimizers(self) -> Set[int]:
        return self.steps.followed

    def note_call(self, func: OpOverload, args: Any, kwargs: Any) -> tuple[Any, Any]:
        given = [x for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
        public = [x for x in given if not isinstance(x, SecretTensor)]
        self.arguments.note_use(public)
        if self.steps.running is None:
            return args, kwargs
        if public:
            self.refuse("an optimizer computes with public tensors")
        return self.steps.note(func, args, kwargs)

    def __torch_dispatch__(
        self, func: OpOverload, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if self.steps.running is None or self._is_in_operation:
            before, self._is_working = self._is_working, True
            try:
                return super().__torch_dispatch__(func, types, args, kwargs)
            finally:
                self._is_working = before
        if any(isinstance(x, SecretTensor) for x in tree_leaves((args, kwargs or {}))):
            return NotImplemented
        return func(*args, **(kwargs or {}))  # an optimizer's public part, which runs in replays

    @property
    def _is_in_operation(self) -> bool:
        """Whether an operation on secrets is running."""
        return self._numbers is not None and self._numbers.protocol.context.in_recorded_call

    def note_arguments(self, others: Sequence[Any]) -> None:
        """Tells of the arguments that are not secret, by their places."""
        self.arguments = ArgumentUse(others)

    @property
    def shared_arguments(self) -> Set[int]:
        return self.arguments.shared

    @property
    def used_arguments(self) -> Set[int]:
        return self.arguments.used

    def note_shared(self, value: Any) -> None:
        if self._numbers is not None and not self._numbers.protocol.replays_inputs:
            self.refuse("it shares")
        for x in tree_leaves(value):
            if x is None:
                continue
            if not isinstance(x, Tensor) or self._is_from_outside(x):
                self.refuse("it shares something else than a tensor that is an argument")
            else:
                self.arguments.shared |= self.arguments.of(x)

    def _is_from_outside(self, x: Tensor) -> bool:
        """Whether a tensor existed before and is no argument, or is made of such."""
        if storage_of(x) in self._outside:
            return True
        return not self.is_new(x) and not self.arguments.of(x)

    def check_input(self, check: Callable[[Tensor], None], values: Tensor) -> None:
        with _disable_current_modes():
            check(values)

    def run(self, func: OpOverload, args: Any, kwargs: Any, found: list[Tensor]) -> Any:
        result = func(*args, **kwargs)
        self._note_changing(func, found, result)
        return result

    def _note_changing(self, func: OpOverload, found: list[Tensor], result: Any) -> None:
        made = [x for x in tree_leaves(result) if isinstance(x, Tensor)]
        self.arguments.note(found, made)
        storages, known = set(map(storage_of, made)), set(map(storage_of, found))
        from_outside = any(map(self._is_from_outside, found))
        self._changing -= storages - known  # a new storage may have the identity of an old one
        self._outside -= storages - known
        if torch.Tag.nondeterministic_seeded in func.tags or not self._changing.isdisjoint(known):
            self._changing |= storages
        if from_outside:
            self._outside |= storages

    def _obstacle(
        self, func: OpOverload, args: Any, kwargs: Any, found: list[Tensor]
    ) -> str | None:
        if func.overloadpacket in READING:
            self.arguments.note_use(found)
        if func.overloadpacket in READING and not all(map(self._is_known, found)):
            return READS
        for target in targets(func, args, kwargs):
            if not self.is_new(target):
                if self.arguments.of(target):
                    return "it writes to an argument"
                if target.is_inference():
                    return f"{func} writes to a public tensor that existed before"
                self.public_state.setdefault(storage_of(target), target)
                self._changing.add(storage_of(target))
        return None

    def _is_known(self, x: Tensor) -> bool:
        """Whether a number is public and stays the same; integers may be parts of secrets."""
        return x.dtype not in INTEGERS and storage_of(x) not in self._changing
