"""What is made of a value that nobody has read yet waits with it.

A training step needs the gradient of its loss, not the loss: a cross-entropy that is never
revealed costs no logarithm.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.utils._pytree import tree_map

from ..fixedpoint import Value
from ..fixedpoint.lazy import Deferred
from .secret import SecretTensor

aten = torch.ops.aten

# Between a log-softmax and the loss that torch makes of it.
LAZY = {
    aten.mul.Tensor,
    aten.mul.Scalar,
    aten.div.Tensor,
    aten.div.Scalar,
    aten.add.Tensor,
    aten.neg.default,
    aten.sum.default,
    aten.sum.dim_IntList,
    aten.mean.default,
}


def lazily(
    apply: Callable[..., Any], func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """The operation's result, to be computed when it is read if an operand is not computed yet."""
    if not any(type(x) is SecretTensor and _waits(x) for x in args):
        return apply(args, kwargs)
    numbers = next(x.numbers for x in args if type(x) is SecretTensor)
    like = func(*tree_map(_form, args), **kwargs)
    frozen = tree_map(_frozen, args)  # what is written to a tensor later does not count

    def make() -> Value:
        made: SecretTensor = apply(frozen, kwargs)
        return made.value

    return SecretTensor(Deferred(make, like.shape, like.dtype), numbers)


def _waits(x: SecretTensor) -> bool:
    value = x.value
    return isinstance(value, Deferred) and value.waits


def _form(x: Any) -> Any:
    if isinstance(x, Tensor):
        return torch.empty(x.shape, dtype=x.dtype, device="meta")
    return x


def _frozen(x: Any) -> Any:
    if type(x) is SecretTensor:
        return SecretTensor(x.value, x.numbers)
    return x.clone() if isinstance(x, Tensor) else x
