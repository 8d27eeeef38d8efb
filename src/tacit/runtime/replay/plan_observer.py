"""Finds whether a function can be recorded as a plan, and what of it changes from call to call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import contextmanager
from typing import Any
from weakref import ReferenceType, ref

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map

from ...fixedpoint import Numbers
from ...kernels.dispatch_mode import leaves
from ...ring.drawn_numbers import UNBOUNDED, Drawn, drawn, note
from ...tensor.secret import Cell, SecretTensor
from ...tensor.trace import targets
from .argument_use import ArgumentUse
from .guards import bound
from .noted_memory import NotedMemory, storage_of
from .optimizer_observer import OptimizerObserver
from .small_work import INTEGERS

aten = torch.ops.aten
READING = frozenset(
    (aten._local_scalar_dense, aten.item, aten.equal, aten.is_nonzero, aten.allclose)
)


CHOOSING = frozenset(("index", "indices", "target", "mask", "condition"))  # names of arguments
GENERATOR: Any = torch.default_generator
UNIFORM = (aten.rand, aten.rand_like)  # numbers from 0 to 1
MASKS = (torch.bool, torch.uint8)
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


class PlanObserver(OptimizerObserver):
    """Finds whether a function can be recorded as a plan.

    Public random numbers are drawn anew by every replay, and public tensors that the function
    writes, such as a counter, are written anew: `public_state`. What Python reads is not read anew,
    so it must follow from other public tensors that were there before; writes to those are noticed.
    """

    def __init__(self) -> None:
        super().__init__()
        self._changing = NotedMemory()  # of numbers that may differ the next time
        self.arguments = ArgumentUse(())
        self._late = NotedMemory()  # of those that are not known before a call: drawn, or revealed
        self._outside = NotedMemory()  # of what the program makes of existing public tensors
        self._revealed: list[ReferenceType[Tensor]] = []
        self._num_bounds = 0
        self._made: list[ReferenceType[Cell]] = []  # of new secrets, where somebody asks for them
        self._is_working = False  # an operation of torch is being noted or recorded

    @contextmanager
    def on(self, numbers: Numbers) -> Iterator[None]:
        with super().on(numbers), _Reads(self):
            yield

    def note_read(self, tensor: Tensor) -> None:
        """Notes that Python reads the elements of a public tensor."""
        if self._is_in_operation and self._changes(tensor):
            self.refuse(READS)
        if self._is_working or self._is_in_operation:
            return
        self._note([tensor])
        self.arguments.note_use([tensor])
        if not self._is_known(tensor):
            self.refuse(READS)

    def note_revealed(self, tensor: Tensor) -> None:
        self.note_late(tensor)
        self._outside.add(tensor)
        self._revealed.append(ref(tensor))

    def note_late(self, *tensors: Tensor) -> None:
        """Notes numbers that differ from call to call, and are not known before the call."""
        self._changing.add(*tensors)
        self._late.add(*tensors)

    @property
    def keeps_revealed(self) -> bool:
        """Whether somebody still holds a tensor that was revealed."""
        return any(made() is not None for made in self._revealed)

    def forget(self, tensors: Sequence[SecretTensor] = ()) -> None:
        super().forget(tensors)
        self._changing.clear()
        self._late.clear()
        self._outside.clear()
        self.arguments.forget()

    def note_call(self, func: OpOverload, args: Any, kwargs: Any) -> tuple[Any, Any]:
        given = [x for x in leaves((args, kwargs)) if isinstance(x, Tensor)]
        public = [x for x in given if not isinstance(x, SecretTensor)]
        self.arguments.note_use(public)
        if self.steps.running is None:
            self.operands.note(func, args, kwargs, self._changes)
        found = [x for x in _numbers(func, args, kwargs) if self._is_unbounded(x)]
        if found:
            bounded = {id(x): self.bounded(x) for x in found}
            args, kwargs = tree_map(lambda x: bounded.get(id(x), x), (args, kwargs))
        return super().note_call(func, args, kwargs)

    def bounded(self, x: Tensor) -> Tensor:
        number, self._num_bounds = self._num_bounds, self._num_bounds + 1
        if not self._changes(x):
            return x
        if x in self._late or self.steps.running is not None:
            self.refuse(UNBOUNDED)
            return x
        with _disable_current_modes():
            known = bound(x, self.bounds.get(number))
            if known is None:
                return x
            self.bounds[number] = known
            return note(x.detach(), known)

    def _watched(self, func: OpOverload, types: Any, args: Any, kwargs: Any) -> Any:
        before, self._is_working = self._is_working, True
        try:
            return super()._watched(func, types, args, kwargs)
        finally:
            self._is_working = before

    def note_arguments(self, others: Sequence[Any], varying: Set[int]) -> None:
        self.arguments = ArgumentUse(others)
        self._changing.add(*(others[i] for i in varying if isinstance(others[i], Tensor)))

    @property
    def shared_arguments(self) -> Set[int]:
        return self.arguments.shared

    @property
    def used_arguments(self) -> Set[int]:
        return self.arguments.used

    def note_shared(self, value: Any) -> None:
        for x in tree_leaves(value):
            if x is None:
                continue
            if not isinstance(x, Tensor) or self._is_from_outside(x):
                self.refuse("it shares something else than a tensor that is an argument")
            else:
                self.arguments.shared |= self.arguments.of(x)

    def _is_from_outside(self, x: Tensor) -> bool:
        """Whether a tensor existed before and is no argument, or is made of such."""
        if x in self._outside:
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
        made = [x for x in leaves(result) if isinstance(x, Tensor)]
        self.arguments.note(found, made)
        if torch.Tag.nondeterministic_seeded in func.tags or any(x in self._late for x in found):
            self.note_late(*made)
        elif any(map(self._changes, found)):
            self._changing.add(*made)
        if not self._is_in_operation and any(map(self._is_from_outside, found)):
            self._outside.add(*made)
        if func.overloadpacket in UNIFORM and not made[0].is_inference():
            note(made[0], Drawn(1.0))

    def _obstacle(
        self, func: OpOverload, args: Any, kwargs: Any, found: list[Tensor]
    ) -> str | None:
        if func.overloadpacket in READING:
            self.arguments.note_use(found)
        if func.overloadpacket in READING and not all(map(self._may_read, found)):
            return READS
        if any(map(_is_own_generator, leaves((args, kwargs)))):
            return "it draws from a generator of its own"
        if any(map(self._changes, shaping(func, args, found))):
            return "the shape of a result follows from numbers that may differ the next time"
        for target in targets(func, args, kwargs):
            if not self.is_new(target):
                if self.arguments.of(target):
                    return "it writes to an argument"
                if target.is_inference():
                    return f"{func} writes to a public tensor that existed before"
                self.public_state.setdefault(storage_of(target), target)
                self._changing.add(target)
        return None

    def _changes(self, x: Tensor) -> bool:
        return x in self._changing

    def _is_unbounded(self, x: Tensor) -> bool:
        """Whether numbers may be others the next time, and nothing is known of their size."""
        return self._changes(x) and drawn(x) is None

    def _may_read(self, x: Tensor) -> bool:
        """Whether Python may decide by a number; a rule may if replays can look at it before."""
        if self._is_in_operation:
            return not self._changes(x) or x not in self._late
        return self._is_known(x)

    def _is_known(self, x: Tensor) -> bool:
        """Whether a number is public and stays the same; integers may be parts of secrets."""
        return x.dtype not in INTEGERS and not self._changes(x)


def _numbers(func: OpOverload, args: Any, kwargs: Any) -> list[Tensor]:
    """Returns the public tensors that an operation computes with: no places and no masks.

    The size of a result, and with it the bits of later comparisons, follows from them.
    """
    names = [argument.name for argument in func._schema.arguments]
    given = dict(zip(names, args, strict=False)) | kwargs
    found = leaves([x for name, x in given.items() if name not in CHOOSING])
    return [x for x in found if isinstance(x, Tensor) and not isinstance(x, SecretTensor)]


def _is_own_generator(x: Any) -> bool:
    """Whether a generator is not the session's, whose state a recording puts back."""
    return isinstance(x, type(GENERATOR)) and x._cdata != GENERATOR._cdata  # torch copies it


def shaping(func: OpOverload, args: Any, found: list[Tensor]) -> list[Tensor]:
    """Returns the operands whose contents decide about the shape of a result."""
    if torch.Tag.dynamic_output_shape not in func.tags:
        return []
    if func.overloadpacket is aten.index:  # by masks, and not by positions
        return [x for x in args[1] if isinstance(x, Tensor) and x.dtype in MASKS]
    return found
