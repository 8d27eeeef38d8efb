"""A mode of torch that watches the operations of one party of a rehearsal."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
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
from ...kernels.dispatch_mode import DispatchMode
from ...nn.dry_run import in_range
from ...tensor import SecretTensor
from ...tensor.secret import Cell
from .arguments import changed, leaves
from .holdings import Holding, holding
from .meter import Meter
from .places import label
from .twin_comparison import Comparison, Held, Step
from .twins import View

GRADIENTS = (Gradient, FineGradient, Seed)
# Lazy values that keep to the range; others are factors of a later product, which does.
BOUNDED = (Square, MeanSquare, FineGradient, Deferred)
REFUSALS = (UnsupportedError, RangeError, RevealForbidden)


class Observer(DispatchMode):
    """Adds every operation on secrets to the comparison, and reads the meter around it.

    An operation that is refused is noted, and goes on with the result on twins. is_active: whether
    it watches; what is computed meanwhile is counted, and not compared.
    """

    def __init__(self, n: Numbers, comparison: Comparison, meter: Meter) -> None:
        super().__init__()
        self._numbers, self._comparison, self._meter = n, comparison, meter
        self._cells: weakref.WeakKeyDictionary[Cell, tuple[int, int]] = weakref.WeakKeyDictionary()
        self._steps = self._named = 0
        self.is_active, self.copies = True, False
        n.on_refusal = self.answer

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Within, operations are not compared."""
        before, self.is_active = self.is_active, False
        try:
            yield
        finally:
            self.is_active = before

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if SecretTensor not in types or not self.is_active:
            return func(*args, **kwargs)
        secrets = [x for x in leaves((args, kwargs)) if type(x) is SecretTensor]
        self._meter.read()
        with self._meter.rehearsing():
            step = self._step(func, args, kwargs, secrets)
            where = label()
        record = self._numbers.protocol.context.record
        before = record.digest
        try:
            result = func(*args, **kwargs)
        except REFUSALS as error:
            return self._replaced(step, error, args, kwargs)
        finally:
            self._comparison.public_calls.add(self._steps + 1, before, record.digest)
        self._meter.read(where)
        with self._meter.rehearsing():
            self._finish(step, secrets, result)
        return result

    def answer(self, error: Error, tensor: SecretTensor, method: str, args: Any) -> Any:
        """Notes that the program asks for values, and answers from the twin."""
        with self._meter.rehearsing():
            self._comparison.note(self._steps + 1, method.strip("_") + "()", error)
            answers = self._asked(self._step(None, (tensor,), {}, [tensor]))
        if answers is None:
            raise error
        return getattr(answers[0].to(tensor.dtype), method)(*args)

    # Steps ----------------------------------------------------------------------------------------

    def _step(self, func: OpOverload | None, args: Any, kwargs: Any, secrets: list[Any]) -> Step:
        """The operation before it runs, with views in the place of secrets."""
        reads: Held = {}
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
        return Step(func, changed(args, view), changed(kwargs, view), reads, gradients=gradients)

    def _finish(self, step: Step, secrets: list[Any], result: Any) -> None:
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
        self._add(step)

    def _mark(self, step: Step, number: int, cell: Cell) -> None:
        if isinstance(cell.value, LazyValue) and not isinstance(cell.value, BOUNDED):
            step.unbounded.add(number)

    def _add(self, step: Step) -> int:
        self._steps += 1
        self._comparison.add(self._numbers, self._steps, step)
        return self._steps

    def _asked(self, step: Step) -> list[Any] | None:
        step.failed = True
        running = self._numbers.protocol.context.mesh.require_running
        return self._comparison.answer(self._add(step), running)

    def _name(self, cell: Cell) -> int:
        """The number of a cell: the same at all parties, which see cells in the same order."""
        if cell in self._cells:
            number, _ = self._cells[cell]
        else:
            self._named += 1
            number = self._named
            weakref.finalize(cell, self._comparison.forget, number).atexit = False
        self._cells[cell] = (number, cell.version)
        return number

    def _held(self, value: Value) -> Holding | None:
        return holding(self._numbers, value)

    # Operations that are refused ------------------------------------------------------------------

    def _replaced(self, step: Step, error: Any, args: Any, kwargs: Any) -> Any:
        """The result on twins, shared anew; raises the error if there is none."""
        assert step.func is not None
        with self._meter.rehearsing():
            self._comparison.note(self._steps + 1, str(step.func), error)
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
    return [x for x in leaves([given.get(name) for name in targets]) if _is_secret(x)]


def _is_complex(x: Any) -> bool:
    return isinstance(x, Tensor) and x.is_complex()


def _is_secret(x: Any) -> bool:
    return type(x) is SecretTensor
