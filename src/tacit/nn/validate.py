"""Finds everything in a model that would fail on secrets, before anything is shared."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map

from ..config import Config
from ..errors import (
    Error,
    RangeError,
    RevealForbidden,
    UnsupportedError,
    described,
    lines_of,
    lines_text,
    rendered,
    statement,
)
from ..fixedpoint import Numbers
from ..kernels.dispatch_mode import DispatchMode
from ..tensor import SecretTensor
from ..tensor.module_path import module_path
from .dry_run import call, in_range, lone_numbers, plain, secret, secret_copy, secret_example
from .module_tensors import module_tensors, unsharable

TOLERANCE = 2.0**-6  # how far results may be from plain ones, absolute and relative


@dataclass(frozen=True)
class Problem:
    """One thing that would fail.

    path: of the module in the model; "" is the model itself. op: the operation that it called.
    line: the user's line, and that of a library, if there are any.
    """

    path: str
    op: str
    reason: str
    remedy: str = ""
    line: str = ""

    def __str__(self) -> str:
        remedy = f"; {self.remedy}" if self.remedy else ""
        line = f" ({self.line})" if self.line else ""
        return f"{self.path or 'the model'}: {self.op}: {self.reason}{remedy}{line}"


@dataclass(frozen=True)
class Survey:
    """What a model does with secrets. calls: the number of calls of each operation."""

    calls: dict[str, int]
    problems: list[Problem]


def validate(
    model: nn.Module,
    example: Any,
    *,
    backward: bool | None = None,
    ring: int = 64,
    fraction_bits: int = 16,
) -> list[Problem]:
    """Returns everything in the model that would fail on secrets; an empty list if it will run.

    `survey` also returns the operations.
    """
    return survey(
        model, example, backward=backward, ring=ring, fraction_bits=fraction_bits
    ).problems


def survey(
    model: nn.Module,
    example: Any,
    *,
    backward: bool | None = None,
    ring: int = 64,
    fraction_bits: int = 16,
) -> Survey:
    """Returns the operations that the model calls on secrets, and the problems that it has.

    A copy of the model runs once on `example`: a tensor, a tuple of arguments or a dict of them,
    made of public sample data of the right shapes. Every tensor in it is a secret of one party, in
    clear. An operation that fails is recorded and computed on plain tensors, so that the run goes
    on. `backward` also computes the gradients of the sum of the outputs; the default is whether
    the model is in training mode.
    """
    broken = [Problem(path, "share", why) for path, why in unsharable(module_tensors(model))]
    if broken:
        return Survey({}, broken)
    settings = Config(ring=ring, fraction_bits=fraction_bits, protocol="cleartext", debug=True)
    n = lone_numbers(settings)
    backward = model.training if backward is None else backward
    found: dict[tuple[str, str, str], Problem] = {}
    with torch.set_grad_enabled(backward), Recorder(n, found) as recorder:
        try:
            copy = secret_copy(n, model)
            outputs = call(copy, secret_example(n, example))
            if backward:
                _loss(outputs).backward()
        except Exception as error:
            stopped = "the run ended here: the rest of the model was not checked"
            recorder.note("forward or backward", described(error), stopped)
    if not found and not model.training:
        _compare(recorder, outputs, model, example)
    return Survey(dict(recorder.calls), list(found.values()))


def _loss(outputs: Any) -> Tensor:
    floats = [x for x in tree_leaves(outputs) if isinstance(x, Tensor) and x.requires_grad]
    return sum((x.sum() for x in floats), start=torch.zeros(()))


def _compare(recorder: Recorder, outputs: Any, model: nn.Module, example: Any) -> None:
    """Records a result that differs from the plain one: some value has left the range."""
    with torch.no_grad():
        wanted = [x for x in tree_leaves(call(model, example)) if isinstance(x, Tensor)]
    got = [x for x in tree_leaves(outputs) if isinstance(x, Tensor)]
    for one, want in zip(got, wanted, strict=True):
        if isinstance(one, SecretTensor) and want.is_floating_point():
            error = (plain(one).double() - want.double()).abs()
            if bool((error > TOLERANCE * (1 + want.double().abs())).any()):
                recorder.note(
                    "forward",
                    f"the result is off by up to {float(error.max()):.3g} from the plain one",
                    "scale what grows beyond the range, or choose other fraction bits",
                )


class Recorder(DispatchMode):
    """Records the operations on secrets; one that fails continues with the plain result."""

    def __init__(self, n: Numbers, found: dict[tuple[str, str, str], Problem]) -> None:
        super().__init__()
        self.numbers, self.found = n, found
        n.on_refusal = self.answer
        self.calls: Counter[str] = Counter()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if any(isinstance(x, SecretTensor) for x in tree_leaves((args, kwargs))):
            self.calls[str(func)] += 1
        try:
            return func(*args, **kwargs)
        except (UnsupportedError, RangeError, RevealForbidden) as error:
            self.note_error(str(func), error)
            return self._plainly(func, args, kwargs)

    def answer(self, error: Error, tensor: SecretTensor, method: str, args: Any) -> Any:
        """Records that the model asks for values, and returns the plain answer."""
        self.note_error(method.strip("_") + "()", error)
        return getattr(plain(tensor), method)(*args)

    def note(self, op: str, reason: str, remedy: str, line: str = "") -> None:
        """Records a problem of the module that runs, once."""
        problem = Problem(module_path() or "", op, reason, remedy, line)
        self.found.setdefault((problem.path, op, reason), problem)

    def note_error(self, op: str, error: Error) -> None:
        """Records what an error says."""
        line = "".join(lines_text(*lines_of(error)))
        self.note(op, statement(error), rendered(error.remedy or ""), line)

    def _plainly(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Returns the result on plain tensors as a secret; writes to the same operands."""
        opened: dict[int, Tensor] = {}

        def show(x: Any) -> Any:
            if not isinstance(x, SecretTensor):
                return x
            return opened.setdefault(id(x), plain(x))

        result = func(*tree_map(show, args), **tree_map(show, kwargs))
        secrets = {id(x): x for x in tree_leaves((args, kwargs)) if isinstance(x, SecretTensor)}
        written = {id(opened[key]): secrets[key] for key in opened if _changed(func, opened[key])}
        for tensor in opened.values():
            if id(tensor) in written:
                written[id(tensor)].write(self._hide(tensor).value)
        return tree_map(lambda x: written.get(id(x)) if id(x) in written else self._hide(x), result)

    def _hide(self, x: Any) -> Any:
        if not isinstance(x, Tensor):
            return x
        return secret(self.numbers, in_range(self.numbers, x))


def _changed(func: Any, tensor: Tensor) -> bool:
    """Whether the operation has written to this operand."""
    return func._schema.is_mutable and tensor._version > 0
