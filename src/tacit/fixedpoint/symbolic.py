"""Public numbers that may be others the next time, such as a learning rate, in recorded functions.

While a function is recorded, such a number is a `SymbolicNumber`. What is computed of it is noted,
and computed again before each replay. Ring elements of it lie in tensors, which are overwritten.
Where code decides by such a number (a comparison, an exponent, a conversion to a float), the
outcome is noted as a guard: with numbers that would decide differently, a replay would not do what
the function does, and must not take place.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from math import floor, frexp
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map_only

CPU = torch.device("cpu")
MOST_ELEMENTS = 4096  # of numbers in one function; those of more are fixed
_INTEGERS = (torch.int32, torch.int64)
_ANY = object()


class _Computation(NamedTuple):
    """function(*operands), which must be `expected` in each replay, unless that is _ANY."""

    function: Callable[..., Any] | None  # None for an input
    operands: tuple[Any, ...]
    expected: Any


class Computations:
    """What was computed of symbolic numbers, in order: inputs, results and guards.

    device: where tensors that hold them are.
    """

    def __init__(self, device: torch.device = CPU) -> None:
        self._steps: list[_Computation] = []
        self.values: list[Any] = []
        self._elements = {dtype: _Elements(dtype, device) for dtype in _INTEGERS}

    def input(self, value: float) -> SymbolicNumber:
        """Returns a number that `update` gets."""
        return self._add(None, (), value)

    def result(self, function: Callable[..., Any], *operands: Any) -> SymbolicNumber:
        """Returns function(*operands)."""
        return self._add(function, operands, function(*map(_value, operands)))

    def decision(self, function: Callable[..., Any], *operands: Any) -> Any:
        """Returns function(*operands) as a plain value, which must be the same in each replay."""
        found = function(*map(_value, operands))
        self._add(function, operands, found, expected=found)
        return found

    def _add(
        self,
        function: Callable[..., Any] | None,
        operands: tuple[Any, ...],
        value: Any,
        expected: Any = _ANY,
    ) -> SymbolicNumber:
        self._steps.append(_Computation(function, operands, expected))
        self.values.append(value)
        return SymbolicNumber(self, len(self.values) - 1)

    def element(self, number: SymbolicNumber, dtype: torch.dtype) -> Any:
        """Returns a tensor that holds an integer, of the last `update`."""
        elements = self._elements[dtype]
        if number.place in elements.places or len(elements.places) < MOST_ELEMENTS:
            return elements.element(number.place, number.value)
        return number.decision(_same)

    def upload(self) -> None:
        """Lets the tensors hold what the numbers are."""
        for elements in self._elements.values():
            elements.upload(self.values)

    def update(self, inputs: Sequence[float]) -> bool:
        """Computes everything anew; False, and nothing changes, if a decision would differ."""
        given, values = iter(inputs), []
        for function, operands, expected in self._steps:
            if function is None:
                values.append(next(given))
                continue
            try:
                found = function(*[_at(values, x) for x in operands])
            except ArithmeticError:
                return False
            if expected is not _ANY and found != expected:
                return False
            values.append(found)
        self.values = values
        self.upload()
        return True


class _Elements:
    """Ring elements of symbolic numbers, one after another in memory of a device.

    places: of the numbers, with the positions of their elements.
    """

    def __init__(self, dtype: torch.dtype, device: torch.device) -> None:
        with _disable_current_modes():
            self._host = torch.zeros(MOST_ELEMENTS, dtype=dtype)
            self._tensor = self._host.to(device)  # the same memory on the CPU
        self.places: dict[int, int] = {}

    def element(self, place: int, value: int) -> Tensor:
        """Returns the tensor of a number; a GPU's holds nothing before `upload`."""
        with _disable_current_modes():
            position = self.places.setdefault(place, len(self.places))
            self._host.numpy()[position] = value
            return self._tensor[position]

    def upload(self, values: Sequence[Any]) -> None:
        """Writes the elements of numbers that have these values."""
        for place, position in self.places.items():
            self._host.numpy()[position] = values[place]
        if self.places and self._tensor is not self._host:
            self._tensor.copy_(self._host)


def _value(x: Any) -> Any:
    return x.value if type(x) is SymbolicNumber else x


def _at(values: Sequence[Any], x: Any) -> Any:
    return values[x.place] if type(x) is SymbolicNumber else x


class SymbolicNumber:
    """A public number that may be another one in a replay.

    Arithmetic gives symbolic numbers. Everything else is a decision by the number, which then fits
    only replays in which it would be the same.
    """

    __slots__ = ("_computations", "place")

    def __init__(self, computations: Computations, place: int) -> None:
        self._computations, self.place = computations, place

    @property
    def value(self) -> Any:
        """The number now."""
        return self._computations.values[self.place]

    @property
    def is_real(self) -> bool:
        """Whether it is a float, always."""
        return isinstance(self.value, float)

    def decision(self, function: Callable[..., Any]) -> Any:
        """Returns function(self), by which the caller decides."""
        return self._computations.decision(function, self)

    def bit_length(self) -> int:
        """As of an int."""
        return int(self.decision(int.bit_length))

    def is_integer(self) -> bool:
        """As of a float."""
        return bool(self.decision(float.is_integer))

    def __float__(self) -> float:
        return float(self.decision(float))

    def __int__(self) -> int:
        return int(self.decision(int))

    def __index__(self) -> int:
        return int(self.decision(operator.index))

    def __bool__(self) -> bool:
        return bool(self.decision(bool))

    def __hash__(self) -> int:
        return int(self.decision(hash))

    def __round__(self) -> SymbolicNumber:
        return self._computations.result(round, self)

    def __floor__(self) -> SymbolicNumber:
        return self._computations.result(floor, self)

    def __neg__(self) -> SymbolicNumber:
        return self._computations.result(operator.neg, self)

    def __abs__(self) -> SymbolicNumber:
        return self._computations.result(abs, self)

    def __repr__(self) -> str:
        return f"SymbolicNumber({self.value!r})"

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Calls a function of torch with a tensor that holds the number, if it is an integer."""
        given = args, kwargs or {}
        tensors = [x for x in tree_leaves(given) if isinstance(x, Tensor)]
        dtype = tensors[0].dtype
        args, kwargs = tree_map_only(cls, lambda x: x._operand(dtype), given)
        return func(*args, **kwargs)

    def _operand(self, dtype: torch.dtype) -> Any:
        if dtype in _INTEGERS and not self.is_real:
            return self._computations.element(self, dtype)
        return self.decision(_same)


def _same(value: Any) -> Any:
    return value


def _arithmetic(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def apply(self: SymbolicNumber, other: Any) -> Any:
        if isinstance(other, Tensor):
            return NotImplemented
        return self._computations.result(function, self, other)

    return apply


def _reflected(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def apply(self: SymbolicNumber, other: Any) -> Any:
        return self._computations.result(function, other, self)

    return apply


def _comparison(function: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def decide(self: SymbolicNumber, other: Any) -> bool:
        return bool(self._computations.decision(function, self, other))

    return decide


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"):
    setattr(SymbolicNumber, f"__{_name}__", _arithmetic(getattr(operator, _name)))
    setattr(SymbolicNumber, f"__r{_name}__", _reflected(getattr(operator, _name)))
for _name in ("lshift", "rshift"):
    setattr(SymbolicNumber, f"__{_name}__", _arithmetic(getattr(operator, _name)))
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    setattr(SymbolicNumber, f"__{_name}__", _comparison(getattr(operator, _name)))


def decided(function: Callable[[float], int], x: float | SymbolicNumber) -> int:
    """Returns function(x), by which the caller decides."""
    return int(x.decision(function)) if isinstance(x, SymbolicNumber) else function(x)


def exponent(x: float | SymbolicNumber) -> int:
    """Returns e with 2^(e-1) <= |x| < 2^e."""
    return decided(_exponent, x)


def _exponent(x: float) -> int:
    return frexp(x)[1]
