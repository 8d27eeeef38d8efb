"""The shapes of results at a party of an enclave, found once for each operation and its arguments.

A party computes with shapes alone. torch finds them by Python code that takes longer than many an
operation itself, and a script asks for the same ones in every step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.utils._pytree import tree_map

MOST_KNOWN = 10_000  # then all are forgotten: a script may call with ever new numbers


class _Form(NamedTuple):
    """All that a tensor of the meta device is."""

    shape: torch.Size
    strides: tuple[int, ...]
    dtype: torch.dtype


_known: dict[tuple[Any, ...], Any] = {}  # for all sessions and threads


def shapes_only(func: OpOverload, run: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Returns run(*args, **kwargs) for tensors of the meta device; `run` does the operation `func`.

    A number that torch calls a `Scalar` has no influence on the shape, but its type on the dtype.
    """
    key = (func, *_forms(func, args, kwargs))
    try:
        found = _known.get(key)
    except TypeError:  # an argument that cannot be hashed
        return run(*args, **kwargs)
    if found is None:
        made = run(*args, **kwargs)
        if len(_known) >= MOST_KNOWN:
            _known.clear()
        _known[key] = tree_map(_form, made)
        return made
    return tree_map(_empty, found, is_leaf=lambda x: isinstance(x, _Form))


def _forms(
    func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Iterator[tuple[Any, ...]]:
    """What a result's shape depends on, argument by argument."""
    scalars = _scalars(func)
    for place, x in [*enumerate(args), *kwargs.items()]:
        yield place, type(x), None if place in scalars else _frozen(x)


def _frozen(x: Any) -> Any:
    if isinstance(x, list | tuple):
        return tuple([(type(one), _frozen(one)) for one in x])
    return _form(x)


def _form(x: Any) -> Any:
    return _Form(x.shape, x.stride(), x.dtype) if isinstance(x, Tensor) else x


def _empty(x: Any) -> Any:
    if not isinstance(x, _Form):
        return x
    return torch.empty_strided(x.shape, x.strides, dtype=x.dtype, device="meta")


_SCALARS: dict[OpOverload, frozenset[int | str]] = {}


def _scalars(func: OpOverload) -> frozenset[int | str]:
    """The places and names of the arguments of an operation that torch calls a `Scalar`."""
    found = _SCALARS.get(func)
    if found is None:
        arguments = list(enumerate(func._schema.arguments))
        named = [(place, one.name) for place, one in arguments if str(one.type) == "number"]
        found = _SCALARS[func] = frozenset(key for pair in named for key in pair)
    return found
