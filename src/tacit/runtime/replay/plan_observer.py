"""Finds whether a function can be recorded as a plan, and what of it changes from call to call."""

from __future__ import annotations

from collections.abc import Iterator, Set
from contextlib import contextmanager
from typing import Any
from weakref import ReferenceType, ref

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.optim import Optimizer
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from ...fixedpoint import Numbers
from ...tensor.secret import SecretTensor
from ...tensor.trace import Trace, targets
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
        self._revealed: list[ReferenceType[Tensor]] = []
        self._is_working = False  # an operation of torch is being noted or recorded

    @contextmanager
    def on(self, numbers: Numbers) -> Iterator[None]:
        with super().on(numbers), _Reads(self):
            yield

    def note_read(self, tensor: Tensor) -> None:
        """Notes that Python reads the elements of a public tensor."""
        if not self._is_working and not self._is_in_operation and not self._is_known(tensor):
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
        if self.steps.running is None:
            return args, kwargs
        given = tree_leaves((args, kwargs))
        if any(isinstance(x, Tensor) and not isinstance(x, SecretTensor) for x in given):
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

    def run(self, func: OpOverload, args: Any, kwargs: Any, found: list[Tensor]) -> Any:
        result = func(*args, **kwargs)
        self._note_changing(func, found, result)
        return result

    def _note_changing(self, func: OpOverload, found: list[Tensor], result: Any) -> None:
        is_drawn = torch.Tag.nondeterministic_seeded in func.tags
        if is_drawn or any(storage_of(x) in self._changing for x in found):
            self._changing |= {storage_of(x) for x in tree_leaves(result) if isinstance(x, Tensor)}

    def _obstacle(
        self, func: OpOverload, args: Any, kwargs: Any, found: list[Tensor]
    ) -> str | None:
        if func.overloadpacket in READING and not all(map(self._is_known, found)):
            return READS
        for target in targets(func, args, kwargs):
            if not self.is_new(target):
                if target.is_inference():
                    return f"{func} writes to a public tensor that existed before"
                self.public_state.setdefault(storage_of(target), target)
                self._changing.add(storage_of(target))
        return None

    def _is_known(self, x: Tensor) -> bool:
        """Whether a number is public and stays the same; integers may be parts of secrets."""
        return x.dtype not in INTEGERS and storage_of(x) not in self._changing


def storage_of(tensor: Tensor) -> int:
    """Returns the identity of a tensor's memory."""
    return tensor.untyped_storage()._cdata
