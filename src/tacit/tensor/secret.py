"""The tensor that shows its shape and hides its values.

NOTE [views]: aliases share a cell, which holds a value. A view shows a part of it, selected by its
function `take`. A write to one alias gives the cell a new value, and the other aliases take their
parts of it when they are next read. Values never change: what autograd saved stays as it was.

NOTE [layout]: a secret tensor reports the strides and the offset that a plain tensor would have if
every tensor that is not a view were contiguous. So torch decides as usual whether a reshape is a
view or a copy. The parts of a share may have other strides in memory.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch._C import _disabled_torch_function_impl
from torch._ops import OpOverload
from torch.nn import Parameter
from torch.utils._pytree import tree_leaves

from ..errors import Operator, OutOfMemory, RangeError, UnsupportedError
from ..fixedpoint import Numbers, Value
from ..protocols import out_of_memory
from ..protocols.public_operands import SECRETS
from .assigned_data import OWN_KEYS
from .hidden import HiddenValues, hide_memory
from .module_path import name_place
from .reflected_division import over

Take = Callable[[Value], Value]
Layout = tuple[tuple[int, ...], int]


class Cell:
    """A value that can be replaced."""

    __slots__ = ("__weakref__", "value", "version")

    def __init__(self, value: Value) -> None:
        self.value, self.version = value, 0

    def set(self, value: Value) -> None:
        """Replaces the value; all aliases see the new one when they are next read."""
        self.value = value
        self.version += 1

    def replace(self, numbers: Numbers, take: Take, value: Value) -> None:
        """Replaces the part of the value that `take` selects."""
        self.set(numbers.replace(self.value, take, value))


class SecretTensor(HiddenValues, Tensor):
    """A `torch.Tensor` of secret numbers. Shape, dtype and device are public, the values are not.

    Made by `session.share`; opened by `session.reveal`. torch's functions, modules, autograd and
    optimizers work on it by the rules of `tacit.tensor.ops`; what has no rule raises UnsupportedOp.
    Its device is `cpu` wherever the shares are. See NOTE [views].
    """

    dispatch: ClassVar[Callable[..., Any]]  # set by the module of that name
    __torch_function__ = _disabled_torch_function_impl  # type: ignore[assignment]

    numbers: Numbers
    origin: int  # how many calls the record had when it was made: part of what is compared
    _is_param: bool  # torch's mark of a parameter
    _cell: Cell
    _take: Take | None
    _value: Value  # of the cell when it had the version `_seen`
    _seen: int

    @staticmethod
    def __new__(
        cls, value: Value, numbers: Numbers, *, requires_grad: bool = False
    ) -> SecretTensor:
        made: SecretTensor = Tensor._make_wrapper_subclass(
            cls,
            value.shape,
            dtype=value.dtype,
            requires_grad=requires_grad,
            _extra_dispatch_keys=OWN_KEYS,
        )
        hide_memory(made)
        made.numbers, made._cell, made._take = numbers, Cell(value), None
        made.origin = numbers.protocol.context.record.count
        if numbers.trace is not None:
            numbers.trace.note_new(made._cell)
        return made

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Does nothing: __new__ makes the tensor, or that of torch, in `torch.Tensor(secret)`."""

    def new_tensor(self, data: Any, **options: Any) -> Tensor:  # type: ignore[override]
        """Returns a plain tensor of this dtype, as for every torch tensor."""
        return torch.empty(0, dtype=self.dtype).new_tensor(data, **options)

    def new(self, *args: Any, **options: Any) -> Tensor:  # type: ignore[override]
        """Returns a plain tensor of this dtype, as for every torch tensor."""
        return torch.empty(0, dtype=self.dtype).new(*args, **options)

    def __rtruediv__(self, other: Any = None) -> Any:
        return over(self, other)

    @classmethod
    def parameter(
        cls, value: Value, numbers: Numbers, *, requires_grad: bool = True
    ) -> SecretTensor:
        """Returns a secret for which isinstance(x, nn.Parameter) holds."""
        made = cls(value, numbers, requires_grad=requires_grad)
        made._is_param = True
        return made

    @property
    def value(self) -> Value:
        """The current value."""
        if self.numbers.trace is not None:
            self.numbers.trace.note_use(self)
        return self.label

    @property
    def label(self) -> Value:
        """The current value, for those who look at its kind alone: this does not count as a use."""
        cell, take = self._cell, self._take
        if take is None:
            return cell.value
        if cell.version != self._seen:
            self._value, self._seen = take(cell.value), cell.version
        return self._value

    def viewed(self, value: Value, layout: Layout, take: Take) -> SecretTensor:
        """Returns a view of this tensor that shows `value`, the part that `take` selects.

        See NOTE [layout].
        """
        made = self._alias(value, layout)
        made.numbers, made._cell, made._take = self.numbers, self._cell, chained(self._take, take)
        made._value, made._seen = value, self._cell.version
        made.origin = self.numbers.protocol.context.record.count
        return made

    def _alias(self, value: Value, layout: Layout) -> SecretTensor:
        strides, offset = layout
        if torch.is_inference_mode_enabled() and not self.is_inference():
            # A view of an ordinary tensor is an ordinary tensor, also in inference mode.
            with torch.inference_mode(False):
                return self._alias(value, layout)
        made: SecretTensor = Tensor._make_wrapper_subclass(
            SecretTensor,
            value.shape,
            strides=strides,
            storage_offset=self.storage_offset() + offset,
            dtype=value.dtype,
            _extra_dispatch_keys=OWN_KEYS,
        )
        hide_memory(made)
        return made

    def base(self) -> SecretTensor:
        """Returns an alias of the whole tensor that this one is a view of."""
        if torch.is_inference_mode_enabled() and not self.is_inference():
            with torch.inference_mode(False):
                return self.base()
        made = SecretTensor(self._cell.value, self.numbers)
        made._cell = self._cell
        return made

    def become(self, other: SecretTensor) -> SecretTensor:
        """Makes this tensor an alias of what `other` is an alias of, with its shape."""
        Tensor.data.__set__(self, other)  # type: ignore[attr-defined]  # torch's record of the shape
        self.numbers, self._cell, self._take = other.numbers, other._cell, other._take
        self.origin = other.origin
        if other._take is not None:
            self._value, self._seen = other._value, other._seen
        return self

    @property
    def data(self) -> SecretTensor:
        """An alias without gradient, as for every torch tensor."""
        return self.detach()  # type: ignore[return-value]

    @data.setter
    def data(self, new: Tensor) -> None:
        if not isinstance(new, Tensor):
            raise TypeError(f"the data of a tensor is a tensor, not {type(new).__name__}")
        if not isinstance(new, SecretTensor):
            self.numbers.protocol.context.record.absorb("data", (self, new))
            new = SecretTensor(self.numbers.public(new.clone()), self.numbers)
        self.become(new)

    def write(self, value: Value) -> SecretTensor:
        """Overwrites this tensor and its aliases. The shape and dtype stay."""
        value = _fitted(self, value)
        if self.numbers.trace is not None:
            self.numbers.trace.note_write(self)
        if self._take is None:
            self._cell.set(value)
        else:
            self._cell.replace(self.numbers, self._take, value)
        return self

    def relabel(self, value: Value) -> None:
        """Shows the same numbers as a value of another kind; this does not count as a write."""
        if self._take is None:
            self._cell.value = value
        else:
            self._value, self._seen = value, self._cell.version

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        grad = ", requires_grad=True" if self.requires_grad else ""
        return f"SecretTensor(shape={tuple(self.shape)}, dtype={self.dtype}{grad})"

    def __deepcopy__(self, memo: dict[int, Any]) -> SecretTensor:
        made = SecretTensor(self.value, self.numbers, requires_grad=self.requires_grad)
        memo[id(self)] = made
        if isinstance(self, Parameter):
            made._is_param = True
        elif self.grad is not None:
            made.grad = copy.deepcopy(self.grad, memo)
        return made

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        try:
            return cls.dispatch(func, args, kwargs or {})
        except (UnsupportedError, RangeError, OutOfMemory) as error:
            name_place(error, func)
            raise
        except (RuntimeError, MemoryError) as error:
            secret = next(x for x in tree_leaves((args, kwargs)) if isinstance(x, SecretTensor))
            context, where = secret.numbers.protocol.context, "in " + Operator(str(func))
            if exhausted := out_of_memory(error, context, where):
                raise name_place(exhausted, func) from error
            raise


SECRETS.add(SecretTensor)


def _fitted(tensor: SecretTensor, value: Value) -> Value:
    """The value in the dtype of the tensor that it is written to; raises if its shape differs."""
    if value.shape != tensor.shape:
        shapes = f"shape {list(tensor.shape)} doesn't match the result's, {list(value.shape)}"
        raise RuntimeError(f"a secret tensor that is written to keeps its shape: {shapes}")
    if value.dtype == tensor.dtype:
        return value
    if not torch.can_cast(value.dtype, tensor.dtype):
        raise RuntimeError(f"result type {value.dtype} can't be cast to {tensor.dtype}")
    return tensor.numbers.convert(value, tensor.dtype)


def layouts(
    func: OpOverload, base: Tensor, args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[Layout, ...]:
    """Returns the strides and offsets of the views that an operation with these arguments makes."""
    fixed = tuple(tuple(x) if type(x) is list else x for x in args)
    return _layouts(func, base.shape, base.stride(), fixed, tuple(kwargs.items()))


@lru_cache(maxsize=4096)
def _layouts(
    func: OpOverload,
    shape: Sequence[int],
    stride: Sequence[int],
    args: tuple[Any, ...],
    kwargs: tuple[tuple[str, Any], ...],
) -> tuple[Layout, ...]:
    """Runs the operation on a meta tensor, which has no elements."""
    shown = func(torch.empty_strided(shape, stride, device="meta"), *args, **dict(kwargs))
    views = shown if isinstance(shown, list | tuple) else [shown]
    return tuple((view.stride(), int(view.storage_offset())) for view in views)


def chained(outer: Take | None, take: Take) -> Take:
    """Returns the composition: `take` of the part that `outer` selects."""
    return take if outer is None else lambda value: take(outer(value))
