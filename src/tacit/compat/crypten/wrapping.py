"""Between CrypTen's tensors and Tacit's secret tensors, which they hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import torch
from torch import Tensor

from ...tensor import SecretTensor

REAL = torch.float32  # CrypTen's numbers have no dtype; its plain ones have this
# What `plain + tensor` and the like call, by the name of torch's function.
REFLECTED = {
    **{name: name for name in ("__and__", "__or__", "__xor__")},
    "add": "__radd__",
    "sub": "__rsub__",
    "eq": "__eq__",
    "ne": "__ne__",
    "lt": "__gt__",
    "gt": "__lt__",
    "le": "__ge__",
    "ge": "__le__",
}


class Wrapped:
    """A tensor that holds a secret one: `secret`, which has torch's shape, dtype and autograd.

    Truth values are integers here, 0 and 1, as CrypTen has them.
    """

    secret: Tensor
    holds_bits = False  # whether the numbers are shared as bits

    @classmethod
    def of(cls, secret: Tensor) -> Self:
        """Returns the tensor that holds `secret`, with its history of autograd."""
        made = object.__new__(cls.concrete())
        made.secret = secret.to(torch.int64) if secret.dtype == torch.bool else secret
        return made

    @classmethod
    def concrete(cls) -> type[Self]:
        """Returns the class of what is computed from tensors of this class."""
        return cls

    @property
    def real(self) -> Tensor:
        """The secret as real numbers, also if they are integers."""
        return self.secret if self.secret.is_floating_point() else self.secret.to(REAL)

    def wrapped(self, result: Any) -> Any:
        """Returns a result of torch with its secret tensors wrapped, also in lists and tuples."""
        if isinstance(result, SecretTensor):
            return self.of(result)
        if isinstance(result, list | tuple):
            return tuple(self.wrapped(one) for one in result)
        return result


def unwrapped(value: Any) -> Any:
    """Returns an argument for torch: secrets for wrapped tensors, and public numbers as REAL."""
    if isinstance(value, Wrapped):
        return value.secret
    if isinstance(value, Tensor) and value.is_floating_point():
        return value.to(REAL)
    if type(value) in (list, tuple):
        return type(value)(unwrapped(one) for one in value)
    if type(value) is dict:
        return {name: unwrapped(one) for name, one in value.items()}
    return value


def operands(value: Any) -> Any:
    """Returns an argument of a tensor's method for torch, as `unwrapped`.

    Public numbers get no gradient, as in CrypTen: it would be secret.
    """
    if isinstance(value, Tensor):
        return unwrapped(value.detach())
    if type(value) in (list, tuple):
        return type(value)(operands(one) for one in value)
    if type(value) is dict:
        return {name: operands(one) for name, one in value.items()}
    return unwrapped(value)


def real(value: Any) -> Any:
    """Returns an argument of a tensor's method that has to be of real numbers; see `operands`."""
    if isinstance(value, Wrapped):
        return value.real
    return value.detach().to(REAL) if isinstance(value, Tensor) else value


def same(name: str, **names: str) -> Callable[..., Any]:
    """Returns a method that does what the tensor method of torch of this name does.

    names: torch's names of arguments that CrypTen calls otherwise.
    """
    function = getattr(Tensor, name)

    def method(self: Wrapped, *args: Any, **kwargs: Any) -> Any:
        given = _renamed(operands(kwargs), names)
        return self.wrapped(function(self.secret, *operands(args), **given))

    return _named(method, name, f"As torch's `Tensor.{name}`.")


def same_of_reals(name: str, **names: str) -> Callable[..., Any]:
    """As `same`, for functions that torch has for real numbers alone: integers become such."""
    function = getattr(Tensor, name)

    def method(self: Wrapped, *args: Any, **kwargs: Any) -> Any:
        given = _renamed(operands(kwargs), names)
        return self.wrapped(function(self.real, *map(real, args), **given))

    return _named(method, name, f"As torch's `Tensor.{name}`, of real numbers.")


def in_place(name: str) -> Callable[..., Any]:
    """Returns a method that writes the result of the method `name` to its tensor."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        with torch.no_grad():
            result = getattr(self, name)(*args, **kwargs)
        if torch.is_grad_enabled() and any(
            isinstance(one, Wrapped) and one.secret.requires_grad for one in (self, *args)
        ):
            raise RuntimeError("in-place functions have no gradient; use the one without `_`")
        return self.set(result)

    return _named(method, f"{name}_", f"Writes the result of `{name}` to this tensor.")


def _renamed(kwargs: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    return {names.get(name, name): value for name, value in kwargs.items()}


def _named(method: Callable[..., Any], name: str, text: str) -> Callable[..., Any]:
    method.__name__, method.__doc__ = name, text
    return method
