"""Shares and reveals tensors, modules, and nests of them."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import keystr, tree_flatten_with_path, tree_unflatten

from ..errors import ConfigError, Party, UnsupportedModule
from ..fixedpoint import Input, Numbers, Value
from ..tensor import SecretTensor
from ..transport.consensus import agree, broadcast_from
from .guarding import watch_modules
from .module_tensors import (
    ModuleTensor,
    describe,
    module_tensors,
    unsharable,
    warn_of_small_eps,
)


def share(n: Numbers, value: Any, owner: int, shape: Sequence[int] | None = None) -> Any:
    """Returns the owner's tensor or module, or a nest of them, as secrets."""
    _check_party(n, "owner", owner)
    if n.trace is not None:
        n.trace.refuse("it shares plain numbers, which may be others the next time")
    if isinstance(value, nn.Module):
        return share_module(n, value, owner)
    if isinstance(value, list | tuple | dict):
        return _share_nested(n, value, owner)
    return share_tensor(n, value, owner, shape)


def _check_party(n: Numbers, name: str, party: int) -> None:
    parties = n.protocol.context.mesh.parties
    if party not in range(parties):
        raise ConfigError(f"{name}={party!r}", limit=f"the parties are 0 to {parties - 1}")


def share_tensor(
    n: Numbers, value: Tensor | None, owner: int, shape: Sequence[int] | None = None
) -> SecretTensor:
    """Returns the owner's tensor as a secret; float32 if all give only a shape."""
    if value is None:
        if shape is None:
            raise ConfigError(
                "share: a party that is not the owner gives a tensor of the same shape, or shape="
            )
        value = torch.empty(tuple(shape), device="meta")
    elif shape is not None and tuple(shape) != tuple(value.shape):
        raise ConfigError(
            f"shape={tuple(shape)} is not the value's {tuple(value.shape)}", subject="share"
        )
    [made] = n.share_many([_input(n, "the tensor", value, owner)], owner)
    return SecretTensor(made, n)


def _input(n: Numbers, path: str, tensor: Tensor, owner: int) -> Input:
    """Returns what this party contributes: shape and dtype, and the values if it is the owner."""
    if not isinstance(tensor, Tensor):
        kind = type(tensor).__name__
        raise ConfigError(
            f"{path} is a {kind}", remedy="tensors and modules can be shared", subject="share"
        )
    if isinstance(tensor, SecretTensor):
        raise ConfigError(f"{path} is secret already", subject="share")
    mine = n.protocol.rank == owner
    if mine and tensor.is_meta:
        raise ConfigError(
            f"{path} has no values (meta device) at its owner, " + Party(owner), subject="share"
        )
    return n.checked_input(tensor, path, mine=mine)


def _share_nested(n: Numbers, nest: Any, owner: int) -> Any:
    """Shares every tensor of nested lists, tuples and dicts in few messages; modules one by one."""
    leaves, form = tree_flatten_with_path(nest)
    paths = [keystr(path) for path, _ in leaves]
    values = [value for _, value in leaves]
    forms = {path: _describe(value) for path, value in zip(paths, values, strict=True)}
    agree(n.protocol.context.mesh, forms, topic="share")
    places = [i for i, value in enumerate(values) if not isinstance(value, nn.Module)]
    made = n.share_many([_input(n, paths[i], values[i], owner) for i in places], owner)
    for i, value in enumerate(values):
        if isinstance(value, nn.Module):
            values[i] = share_module(n, value, owner)
    for i, secret in zip(places, made, strict=True):
        values[i] = SecretTensor(secret, n)
    return tree_unflatten(values, form)


def _describe(leaf: Any) -> str:
    if isinstance(leaf, Tensor):
        return f"shape {tuple(leaf.shape)}, {str(leaf.dtype).removeprefix('torch.')}"
    return f"a {type(leaf).__name__}"


# Modules ----------------------------------------------------------------------------------------


def share_module(n: Numbers, module: nn.Module, owner: int) -> nn.Module:
    """Makes the parameters and floating-point buffers of a module secret, in place.

    Class, code, hooks and ties stay. Integer and bool buffers stay public, and all parties get the
    owner's. Every party gives the same architecture; a difference is a ConfigError, before anything
    is sent. 1 or 2 rounds to compare, then a message for every 2^23 elements.
    """
    with _exclusive(module):
        tensors = module_tensors(module)
        _check_sharable(module, tensors)
        secret = [entry for entry in tensors if entry.becomes_secret]
        public = [entry for entry in tensors if not entry.becomes_secret]
        inputs = [_input(n, entry.path, entry.tensor, owner) for entry in secret]
        mesh = n.protocol.context.mesh
        agree(mesh, describe(module, tensors), topic="share")
        owners = broadcast_from(mesh, [entry.tensor for entry in public], owner)
        values = n.share_many(inputs, owner)
        for entry, tensor in zip(public, owners, strict=True):
            entry.replace(tensor)
        for entry, value in zip(secret, values, strict=True):
            replace_by_secret(n, entry, value)
        if n.watched is not None:
            watch_modules(module)
    warn_of_small_eps(n, module)
    return module


def _check_sharable(module: nn.Module, tensors: Sequence[ModuleTensor]) -> None:
    if problems := unsharable(tensors):
        listed = "; ".join(f"{path} {reason}" for path, reason in problems)
        raise UnsupportedModule(
            f"{type(module).__name__} cannot be shared", cause=listed, subject="share"
        )


def replace_by_secret(n: Numbers, entry: ModuleTensor, value: Value) -> None:
    """Puts a secret in the place of a module's tensor; a parameter stays one."""
    if entry.is_parameter:
        requires_grad = entry.tensor.requires_grad
        entry.replace(SecretTensor.parameter(value, n, requires_grad=requires_grad))
    else:
        entry.replace(SecretTensor(value, n))


_being_shared: set[int] = set()
_lock = Lock()


@contextmanager
def _exclusive(module: nn.Module) -> Iterator[None]:
    """Refuses a module object that another party, a thread of this process, shares right now."""
    with _lock:
        if id(module) in _being_shared:
            raise ConfigError(
                f"several parties share one {type(module).__name__} object, which becomes secret "
                "in place",
                remedy="build it, or copy.deepcopy it, inside main",
                subject="share",
            )
        _being_shared.add(id(module))
    try:
        yield
    finally:
        with _lock:
            _being_shared.discard(id(module))


# Revealing --------------------------------------------------------------------------------------


def reveal(n: Numbers, secret: Any, to: int | None = None) -> Any:
    """Returns the plain tensor or module, or nest of them, at party `to` or at all; else None.

    In a nest every secret is replaced by what this party gets of it.
    """
    if to is not None:
        _check_party(n, "to", to)
    n.protocol.context.reveal_policy.require(to)  # before lazy values are computed for it
    if isinstance(secret, nn.Module):
        return _reveal_module(n, secret, to)
    leaves, form = tree_flatten_with_path(secret)
    values = [value for _, value in leaves]
    for path, value in leaves:
        if not isinstance(value, SecretTensor | nn.Module):
            place = f" at {keystr(path)}" if path else ""
            kind = type(value).__name__
            raise ConfigError(f"{kind}{place} is not a secret tensor or module", subject="reveal")
    places = [i for i, value in enumerate(values) if isinstance(value, SecretTensor)]
    opened = n.reveal_many([values[i].value for i in places], to)
    for i, plain in zip(places, opened, strict=True):
        values[i] = plain
    plain_values = [
        _reveal_module(n, value, to) if isinstance(value, nn.Module) else value for value in values
    ]
    return tree_unflatten(plain_values, form)


def _reveal_module(n: Numbers, module: nn.Module, to: int | None) -> nn.Module | None:
    """Returns a plain copy of a module, which stays secret."""
    secret = [entry for entry in module_tensors(module) if isinstance(entry.tensor, SecretTensor)]
    opened = n.reveal_many([_value(entry.tensor) for entry in secret], to)
    if to not in (None, n.protocol.rank):
        return None
    plain: dict[int, Any] = {}
    for entry, tensor in zip(secret, opened, strict=True):
        if tensor is not None and entry.is_parameter:
            tensor = nn.Parameter(tensor, requires_grad=entry.tensor.requires_grad)
        plain[id(entry.tensor)] = tensor
    return copy.deepcopy(module, plain)


def _value(tensor: Tensor) -> Value:
    assert isinstance(tensor, SecretTensor)
    return tensor.value
