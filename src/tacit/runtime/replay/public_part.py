"""A step of an optimizer without its operations on secrets: what it counts and computes in public.

The code of the optimizer runs as usual. In place of operations on secrets their public arguments
are noted, and results are tensors without contents.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch._C import _disabled_torch_function_impl
from torch._ops import OpOverload
from torch.optim import Optimizer
from torch.utils._pytree import tree_leaves, tree_map_only

from ...fixedpoint import Numbers
from ...kernels.dispatch_mode import DispatchMode
from ...tensor import SecretTensor
from ...tensor.optimizer_hooks import leave_lists, take_lists


class Call(NamedTuple):
    """An operation on secrets, and its public arguments: numbers, and copies of tensors."""

    func: OpOverload
    public: list[Any]

    @classmethod
    def of(cls, func: OpOverload, leaves: Sequence[Any]) -> Call:
        """Takes what is public out of the arguments."""
        return cls(func, [_held(x) for x in leaves if is_public(x)])


def is_public(x: Any) -> bool:
    """Whether an argument of an operation in a step is public."""
    return not isinstance(x, SecretTensor | _Placeholder)


def _held(x: Any) -> Any:
    """Returns what a public argument is now; a tensor without dimensions is a number."""
    if not isinstance(x, Tensor):
        return x
    return x.clone() if x.dim() else x.item()


class Step:
    """One call of `Optimizer.step`: the parameters that have gradients, and what it does.

    symbolic: the numbers of a plan that may differ: the call, and the place in its `public`.
    """

    def __init__(self, optimizer: Optimizer) -> None:
        self.optimizer = optimizer
        self.calls: list[Call] = []
        self.symbolic: set[tuple[int, int]] = set()
        self._results: dict[int, Any] = {}  # without contents, by call
        self.note_gradients()

    def note_gradients(self) -> None:
        """Notes which parameters have gradients: before the step, and after its closure."""
        self._gradients = {id(x): x for x in self._parameters() if x.grad is not None}

    def public_part(self) -> list[Call] | None:
        """Runs the step without operations on secrets; returns those, or None if others follow."""
        step = type(self.optimizer).step
        while getattr(step, "hooked", False):
            step = step.__wrapped__  # type: ignore[attr-defined]
        mode = _PublicPart([call.func for call in self.calls], self._results)
        take_lists(self.optimizer)
        try:
            with self._with_gradients(), mode:
                step(self.optimizer)
        except _OtherCall:
            return None
        finally:
            leave_lists(self.optimizer)
        return mode.calls if len(mode.calls) == len(self.calls) else None

    @contextmanager
    def _with_gradients(self) -> Iterator[None]:
        """In the block, those parameters that had a gradient have one; nobody reads it."""
        before = [(x, x.grad) for x in self._parameters()]
        for x, _ in before:
            x.grad = _alias(x) if id(x) in self._gradients else None
        try:
            yield
        finally:
            for x, gradient in before:
                x.grad = gradient

    def _parameters(self) -> Iterator[Tensor]:
        for group in self.optimizer.param_groups:
            yield from group["params"]


def _alias(x: Tensor) -> Tensor:
    """Another tensor of the same cell."""
    if not isinstance(x, SecretTensor):
        return torch.empty_like(x)
    made = SecretTensor(x.value, x.numbers)
    made._cell = x._cell
    return made


class _OtherCall(Exception):
    """An optimizer does not do what was recorded."""


class _PublicPart(DispatchMode):
    """Notes operations on secrets instead of doing them."""

    def __init__(self, expected: Sequence[OpOverload], results: dict[int, Any]) -> None:
        super().__init__()
        self.calls: list[Call] = []
        self._expected, self._results = expected, results

    def __torch_dispatch__(
        self, func: OpOverload, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        leaves = tree_leaves((args, kwargs))
        if all(map(is_public, leaves)):
            return func(*args, **kwargs)
        place = len(self.calls)
        if place >= len(self._expected) or func is not self._expected[place]:
            raise _OtherCall
        self.calls.append(Call.of(func, leaves))
        if func._schema.is_mutable:
            return kwargs.get("out", args[0]) if func._schema.returns else None
        if place not in self._results:
            shapes, named = tree_map_only(Tensor, _emptied, (args, kwargs))
            made = func(*shapes, **named)
            numbers = next(x.numbers for x in leaves if not is_public(x))
            self._results[place] = tree_map_only(Tensor, partial(_Placeholder.like, numbers), made)
        return self._results[place]


class _Placeholder(Tensor):
    """A result without contents, with which torch calls the operations that it would for a secret.

    It is on the CPU, so numbers that torch puts into tensors beside it have contents.
    """

    __torch_function__ = _disabled_torch_function_impl  # type: ignore[assignment]
    __rtruediv__ = SecretTensor.__rtruediv__
    numbers: Numbers

    @classmethod
    def like(cls, numbers: Numbers, x: Tensor) -> Tensor:
        """Returns one of this shape and dtype."""
        made: _Placeholder = Tensor._make_wrapper_subclass(
            cls, x.shape, strides=x.stride(), dtype=x.dtype
        )
        made.numbers = numbers
        return made

    @classmethod
    def __torch_dispatch__(cls, *_: Any) -> Any:
        raise _OtherCall


def _emptied(x: Tensor) -> Tensor:
    return torch.empty(x.shape, dtype=x.dtype, device="meta")
