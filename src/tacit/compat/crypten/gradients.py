"""`crypten.gradients`: functions with a forward and a backward of their own, by name.

A class that `register_function` names becomes a method of CrypTensors. Those of Tacit's own
methods are there, too: torch computes their gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from ...errors import ConfigError, UnsupportedError
from .cryptensor import CrypTensor
from .repeated_definitions import is_defined_again
from .shares import as_secret
from .wrapping import Wrapped, unwrapped

__all__ = [
    "FUNCTION_REGISTRY",
    "AutogradContext",
    "AutogradFunction",
    "get_grad_fn",
    "register_function",
]


class AutogradContext:
    """What a forward function keeps for the backward one."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forgets everything."""
        self._saved: list[Any] = []
        self._constant: set[int] = set()

    def save_for_backward(self, value: Any) -> None:
        """Keeps one more value."""
        self._saved.append(value)

    def save_multiple_for_backward(self, values: Sequence[Any]) -> None:
        """Keeps more values."""
        self._saved.extend(values)

    def mark_non_differentiable(self, non_differentiable: Any) -> None:
        """Says that a tensor, or each of a list, has no gradient."""
        given = non_differentiable
        self._constant.update(map(id, given if isinstance(given, list | tuple) else [given]))

    def is_differentiable(self, tensor: Any) -> bool:
        """Returns whether a tensor may have a gradient."""
        return id(tensor) not in self._constant

    @property
    def saved_tensors(self) -> list[Any]:
        """All that was kept, in order."""
        return self._saved


class AutogradFunction:
    """A function of CrypTensors, and how the gradients of its inputs follow from its output's."""

    name: ClassVar[str] = ""

    @staticmethod
    def forward(ctx: AutogradContext, *args: Any, **kwargs: Any) -> Any:
        """Returns the result; subclasses define it."""
        raise UnsupportedError("an AutogradFunction has no forward")

    @staticmethod
    def backward(ctx: AutogradContext, *grad_output: Any) -> Any:
        """Returns the gradients of all inputs that are CrypTensors, in order."""
        raise UnsupportedError("an AutogradFunction has no backward")


FUNCTION_REGISTRY: dict[str, type[AutogradFunction]] = {}


def register_function(name: str) -> Callable[[type[Any]], type[Any]]:
    """Returns a decorator that makes a class the method `name` of CrypTensors."""

    def registered(cls: type[Any]) -> type[Any]:
        if not issubclass(cls, AutogradFunction):
            raise ConfigError(f"{cls.__name__}", limit="a function extends AutogradFunction")
        if hasattr(CrypTensor, name) and not is_defined_again(cls, FUNCTION_REGISTRY.get(name)):
            raise ConfigError(f"the function {name!r}", limit="a name has one function")
        FUNCTION_REGISTRY[name], cls.name = cls, name
        setattr(CrypTensor, name, lambda *args, **kwargs: _applied(cls, args, kwargs))
        return cls

    return registered


def get_grad_fn(name: str) -> type[AutogradFunction] | None:
    """Returns the function of a name, or None."""
    return FUNCTION_REGISTRY.get(name)


# Functions of users -------------------------------------------------------------------------------


def _applied(function: type[AutogradFunction], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Returns what a function returns, as a part of torch's graph."""
    secrets = [one.secret for one in args if isinstance(one, CrypTensor)]
    made = _Bridge.apply(function, args, kwargs, *secrets)  # type: ignore[no-untyped-call]
    return args[0].wrapped(made)


class _Bridge(torch.autograd.Function):
    """A node of torch's graph that calls an AutogradFunction."""

    @staticmethod
    def forward(
        ctx: Any, function: type[Any], args: Sequence[Any], kwargs: dict[str, Any], *secrets: Tensor
    ) -> Any:
        own = ctx.own = AutogradContext()
        ctx.function, ctx.of = function, next(one for one in args if isinstance(one, CrypTensor)).of
        remaining = iter(secrets)
        given = [ctx.of(next(remaining)) if isinstance(one, CrypTensor) else one for one in args]
        result = function.forward(own, *given, **kwargs)
        results = result if isinstance(result, tuple) else (result,)
        constant = [one.secret for one in results if not own.is_differentiable(one)]
        ctx.mark_non_differentiable(*constant)
        ctx.takes_grad = [own.is_differentiable(one) for one in results]
        return unwrapped(result)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        wanted = [
            ctx.of(as_secret(one))
            for one, takes in zip(grads, ctx.takes_grad, strict=True)
            if takes
        ]
        found = ctx.function.backward(ctx.own, *wanted)
        found = list(found) if isinstance(found, list | tuple) else [found]
        number = len(ctx.needs_input_grad) - 3  # the tensors
        found = (found + [None] * number)[:number]
        return (None, None, None, *(None if one is None else unwrapped(one) for one in found))


# Functions of Tacit -------------------------------------------------------------------------------


def _own_function(method: str) -> type[AutogradFunction]:
    """Returns a method of CrypTensors as a function, whose gradients torch computes."""

    class OwnFunction(AutogradFunction):
        name = method

        @staticmethod
        def forward(ctx: AutogradContext, *args: Any, **kwargs: Any) -> Any:
            given = [_leaf(one) for one in args]
            with torch.enable_grad():
                result = getattr(given[0], method)(*given[1:], **kwargs)
            leaves = [one for one in given if isinstance(one, CrypTensor)]
            results = result if isinstance(result, tuple) else (result,)
            ctx.save_for_backward(leaves)
            ctx.save_for_backward([one for one in results if one.requires_grad])
            made = [one.detach() for one in results]
            for one, with_grad in zip(made, results, strict=True):
                if not with_grad.requires_grad:
                    ctx.mark_non_differentiable(one)
            return tuple(made) if isinstance(result, tuple) else made[0]

        @staticmethod
        def backward(ctx: AutogradContext, *grad_output: Any) -> Any:
            leaves, results = ctx.saved_tensors
            found = torch.autograd.grad(
                [one.secret for one in results],
                [one.secret for one in leaves],
                [as_secret(unwrapped(one)) for one in grad_output],
                retain_graph=True,
            )
            made = tuple(leaves[0].of(as_secret(one)) for one in found)
            return made if len(made) > 1 else made[0]

    return OwnFunction


def _leaf(value: Any) -> Any:
    """Returns a secret as a leaf of a new graph; anything else as it is."""
    if not isinstance(value, Wrapped):
        return value
    made = value.of(value.real.detach().clone())
    made.secret.requires_grad_(True)
    return made


OWN_FUNCTIONS = """
    t transpose permute flip clone cumsum trace view reshape flatten narrow take index_select gather
    scatter roll squeeze unsqueeze repeat expand unfold __getitem__ neg relu hardtanh relu6 erf tanh
    add sub mul matmul div pow pos_pow square sqrt exp log reciprocal dot ger sin cos abs sign norm
    sum mean var min max pad sigmoid softmax log_softmax prod dropout avg_pool2d max_pool2d
    adaptive_avg_pool2d conv1d conv2d conv_transpose1d conv_transpose2d batchnorm
    binary_cross_entropy binary_cross_entropy_with_logits rappor_loss cross_entropy
    cosine_similarity polynomial _feature_dropout __rsub__ __rtruediv__
"""
FUNCTION_REGISTRY.update({name: _own_function(name) for name in OWN_FUNCTIONS.split()})
