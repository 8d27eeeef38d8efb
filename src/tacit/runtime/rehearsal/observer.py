"""What watches the operations of one party of a rehearsal."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from threading import get_ident
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

from ...errors import Error, RangeError, RevealForbidden, UnsupportedError
from ...fixedpoint import Numbers, Value
from ...fixedpoint.extended.fine_gradients import FineGradient, Seed
from ...fixedpoint.extended.mean_square import MeanSquare, Square
from ...fixedpoint.extended.moments import Gradient
from ...fixedpoint.lazy import Deferred, LazyValue
from ...nn.dry_run import in_range
from ...tensor import SecretTensor
from ...tensor.module_path import name_place
from ...tensor.secret import Cell
from .arguments import changed, leaves
from .holdings import Holding, holding
from .meter import Meter
from .twin_comparison import Comparison, Held, Step
from .twins import View

Call = Callable[[OpOverload, tuple[Any, ...], dict[str, Any]], Any]
GRADIENTS = (Gradient, FineGradient, Seed)
# Lazy values that keep to the range; others are factors of a later product, which does.
BOUNDED = (Square, MeanSquare, FineGradient, Deferred)
REFUSALS = (UnsupportedError, RangeError, RevealForbidden)


class Observer:
    """Adds every operation on secrets to the comparison, and reads the meter around it.

    An operation that is refused is noted, and goes on with the result on twins. copies: whether
    what a party holds is copied, because later operations write to the same memory.
    """

    def __init__(self, n: Numbers, comparison: Comparison, meter: Meter) -> None:
        self._numbers, self._comparison, self._meter = n, comparison, meter
        self._cells: weakref.WeakKeyDictionary[Cell, tuple[int, int]] = weakref.WeakKeyDictionary()
        self._ends: dict[int, weakref.ref[Cell]] = {}  # each says when its cell is gone
        self._steps = self._named = 0
        self.copies, self._thread = False, get_ident()
        self._is_active = True
        n.on_call, n.on_refusal = self.call, self.answer

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Within, operations are not compared."""
        before, self._is_active = self._is_active, False
        try:
            yield
        finally:
            self._is_active = before

    def call(self, make: Call, func: OpOverload, args: tuple[Any, ...], kwargs: Any) -> Any:
        """Returns what an operation makes. Those of `session.map`'s threads are not compared."""
        if not self._is_active or get_ident() != self._thread:
            return make(func, args, kwargs)
        self._steps += 1
        index, step, where = self._steps, None, None
        if not func.is_view:  # the twin of a view is that of its cell
            self._meter.read()
            with self._meter.rehearsing():
                step = self._step(index, func, args, kwargs)
                where = self._comparison.label(index)
        record = self._numbers.protocol.context.record
        before = record.digest
        try:
            result = make(func, args, kwargs)
        except REFUSALS as error:
            name_place(error, func)
            step = step or self._step(index, func, args, kwargs)
            return self._replaced(step, error, args, kwargs)
        finally:
            self._comparison.public_calls.add(index, before, record.digest)
        if step is not None:
            self._meter.read(where)
            with self._meter.rehearsing():
                self._finish(step, _secrets(args, kwargs), result)
        return result

    def answer(self, error: Error, tensor: SecretTensor, method: str, args: Any) -> Any:
        """Notes that the program asks for values, and answers from the twin."""
        with self._meter.rehearsing():
            self._steps += 1
            self._comparison.note(self._steps, method.strip("_") + "()", error)
            answers = self._asked(self._step(self._steps, None, (tensor,), {}))
        if answers is None:
            raise error
        return getattr(answers[0].to(tensor.dtype), method)(*args)

    # Steps ----------------------------------------------------------------------------------------

    def _step(self, index: int, func: OpOverload | None, args: Any, kwargs: Any) -> Step:
        """The operation before it runs, with views in the place of secrets."""
        reads: Held = {}
        secrets = _secrets(args, kwargs)
        for x in secrets:
            number, version = self._cells.get(x._cell, (None, 0))
            if number is None or version != x._cell.version:
                number = self._name(x._cell)
                held = self._held(x._cell.value)
                reads[number] = held.copied() if held and self.copies else held

        def view(x: Any) -> Any:
            if type(x) is not SecretTensor:
                return x
            number, _ = self._cells[x._cell]
            return View(number, x.shape, x.stride(), int(x.storage_offset()))

        within_backward = torch._C._current_graph_task_id() != -1
        gradients = within_backward or any(isinstance(x.label, GRADIENTS) for x in secrets)
        args, kwargs = changed(args, view), changed(kwargs, view)
        return Step(index, func, args, kwargs, reads, gradients=gradients)

    def _finish(self, step: Step, secrets: list[SecretTensor], result: Any) -> None:
        """Adds the operation with its results to the comparison."""
        for place, x in enumerate(leaves(result)):
            if type(x) is SecretTensor and x._cell not in self._cells:
                number = self._name(x._cell)
                if x._take is None:
                    step.results[place] = number
                    step.made[number] = self._held(x._cell.value)
                    self._mark(step, number, x._cell)
                else:
                    del self._cells[x._cell]  # a view of something new: an input, when it is read
        for cell in {x._cell for x in secrets}:
            number, version = self._cells[cell]
            if version != cell.version:
                self._cells[cell] = (number, cell.version)
                step.writes[number] = self._held(cell.value)
                self._mark(step, number, cell)
        if step.reads or step.made or step.writes:
            self._comparison.add(self._numbers, step)

    def _mark(self, step: Step, number: int, cell: Cell) -> None:
        if isinstance(cell.value, LazyValue) and not isinstance(cell.value, BOUNDED):
            step.unbounded.add(number)

    def _asked(self, step: Step) -> list[Any] | None:
        step.failed = True
        self._comparison.add(self._numbers, step)
        running = self._numbers.protocol.context.mesh.require_running
        return self._comparison.answer(step.index, running)

    def _name(self, cell: Cell) -> int:
        """The number of a cell: the same at all parties, which see cells in the same order."""
        if cell in self._cells:
            number, _ = self._cells[cell]
        else:
            self._named += 1
            number = self._named
            self._ends[number] = weakref.ref(cell, partial(self._forget, number))
        self._cells[cell] = (number, cell.version)
        return number

    def _forget(self, number: int, _: object) -> None:
        del self._ends[number]
        self._comparison.forget(number)

    def _held(self, value: Value) -> Holding | None:
        return holding(self._numbers, value)

    # Operations that are refused ------------------------------------------------------------------

    def _replaced(self, step: Step, error: Any, args: Any, kwargs: Any) -> Any:
        """The result on twins, shared anew; raises the error if there is none."""
        assert step.func is not None
        with self._meter.rehearsing():
            self._comparison.note(step.index, str(step.func), error)
            answers = self._asked(step)
            if answers is None or any(map(_is_complex, answers)):
                raise error
            return self._shared(step.func, answers, args, kwargs)

    def _shared(self, func: OpOverload, answers: list[Any], args: Any, kwargs: Any) -> Any:
        """The form of the result comes from meta tensors; operands that are written to stay."""
        written = _written(func, args, kwargs)
        if written:
            for x, twin in zip(written, answers, strict=False):
                x.write(self._secret(twin, x.dtype).value)
            return written[0] if len(written) == 1 else tuple(written)
        shown = func(*tree_map(_meta, args), **tree_map(_meta, kwargs))
        shapes, form = tree_flatten(shown)
        pairs = zip(answers, shapes, strict=True)
        return tree_unflatten(
            [self._secret(x, like.dtype) if isinstance(x, Tensor) else x for x, like in pairs], form
        )

    def _secret(self, plain: Tensor, dtype: torch.dtype) -> SecretTensor:
        public = self._numbers.public(in_range(self._numbers, plain).to(dtype))
        return SecretTensor(Value(public.share, dtype), self._numbers)


def _meta(x: Any) -> Any:
    if not isinstance(x, Tensor):
        return x
    return torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device="meta")


def _written(func: OpOverload, args: Any, kwargs: Any) -> list[SecretTensor]:
    """The secrets that the operation would write to."""
    names = [argument.name for argument in func._schema.arguments]
    given = dict(zip(names, args, strict=False)) | kwargs
    targets = [a.name for a in func._schema.arguments if a.alias_info and a.alias_info.is_write]
    return _secrets([given.get(name) for name in targets], {})


def _secrets(args: Any, kwargs: Any) -> list[SecretTensor]:
    return [x for x in leaves((args, kwargs)) if type(x) is SecretTensor]


def _is_complex(x: Any) -> bool:
    return isinstance(x, Tensor) and x.is_complex()
