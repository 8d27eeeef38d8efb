"""Tensors and modules into secrets and back."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import keystr, tree_flatten_with_path, tree_unflatten

from ..errors import ConfigError
from ..fixedpoint import Numbers, Value
from ..fixedpoint.transfer import Input, reveal_many, share_many
from ..tensor import SecretTensor
from ..transport.consensus import compare, from_owner
from .module_tensors import Slot, check_sharable, description, slots


def share(n: Numbers, value: Any, owner: int, shape: Sequence[int] | None = None) -> Any:
    """The owner's tensor or module, or a nest of them, as secrets."""
    _check_party(n, "owner", owner)
    if n.trace is not None:
        n.trace.refuse("it shares plain numbers, which may be others the next time")
    if isinstance(value, nn.Module):
        return share_module(n, value, owner)
    if isinstance(value, list | tuple | dict):
        return _share_nest(n, value, owner)
    return share_tensor(n, value, owner, shape)


def _check_party(n: Numbers, name: str, party: int) -> None:
    parties = n.protocol.context.mesh.parties
    if party not in range(parties):
        raise ConfigError(f"{name}={party!r}: the parties are 0 to {parties - 1}")


def share_tensor(
    n: Numbers, value: Tensor | None, owner: int, shape: Sequence[int] | None = None
) -> SecretTensor:
    """A secret tensor of the owner's values; float32 where only a shape is given."""
    if value is None:
        if shape is None:
            raise ConfigError(
                "share: a party that is not the owner gives a tensor alike, or shape="
            )
        value = torch.empty(tuple(shape), device="meta")
    elif shape is not None and tuple(shape) != tuple(value.shape):
        raise ConfigError(f"share: shape={tuple(shape)} is not the value's {tuple(value.shape)}")
    [made] = share_many(n, [_input(n, "the tensor", value, owner)], owner)
    return SecretTensor(made, n)


def _input(n: Numbers, path: str, tensor: Tensor, owner: int) -> Input:
    """What this party gives of a tensor: its values, if it owns them."""
    if not isinstance(tensor, Tensor):
        kind = type(tensor).__name__
        raise ConfigError(f"share: {path} is a {kind}; tensors and modules can be shared")
    if isinstance(tensor, SecretTensor):
        raise ConfigError(f"share: {path} is secret already")
    mine = n.protocol.rank == owner
    if mine and tensor.is_meta:
        raise ConfigError(f"share: {path} has no values (meta device) at its owner, party {owner}")
    return Input(tensor.shape, tensor.dtype, tensor.detach() if mine else None, path)


def _share_nest(n: Numbers, nest: Any, owner: int) -> Any:
    """Every tensor of nested lists, tuples and dicts, in few messages; modules one by one."""
    leaves, form = tree_flatten_with_path(nest)
    paths = [keystr(path) for path, _ in leaves]
    values = [value for _, value in leaves]
    compare(
        n.protocol.context.mesh,
        "share",
        {path: _alike(v) for path, v in zip(paths, values, strict=True)},
    )
    places = [i for i, value in enumerate(values) if not isinstance(value, nn.Module)]
    made = share_many(n, [_input(n, paths[i], values[i], owner) for i in places], owner)
    for i, value in enumerate(values):
        if isinstance(value, nn.Module):
            values[i] = share_module(n, value, owner)
    for i, secret in zip(places, made, strict=True):
        values[i] = SecretTensor(secret, n)
    return tree_unflatten(values, form)


def _alike(leaf: Any) -> str:
    if isinstance(leaf, Tensor):
        return f"shape {tuple(leaf.shape)}, {str(leaf.dtype).removeprefix('torch.')}"
    return f"a {type(leaf).__name__}"


# Modules ----------------------------------------------------------------------------------------


def share_module(n: Numbers, module: nn.Module, owner: int) -> nn.Module:
    """The same module, with its parameters and floating buffers secret, in place.

    Class, code, hooks and ties stay. Integer and bool buffers stay public, and all parties get the
    owner's. Every party gives the same architecture; what differs is a ConfigError, before anything
    is sent. 1 or 2 rounds to compare, then a message for every 2^23 elements.
    """
    with _alone(module):
        check_sharable(module)
        found = slots(module)
        secret = [slot for slot in found if slot.becomes_secret]
        inputs = [_input(n, slot.path, slot.tensor, owner) for slot in secret]
        compare(n.protocol.context.mesh, "share", description(module))
        public = [slot for slot in found if not slot.becomes_secret]
        shared = from_owner(n.protocol.context.mesh, [slot.tensor for slot in public], owner)
        for slot, tensor in zip(public, shared, strict=True):
            slot.put(tensor)
        for slot, value in zip(secret, share_many(n, inputs, owner), strict=True):
            put_secret(n, slot, value)
    return module


def put_secret(n: Numbers, slot: Slot, value: Value) -> None:
    """Puts a secret in the place of a module's tensor."""
    made: Tensor = SecretTensor(value, n)
    if slot.is_parameter:
        made = nn.Parameter(made, requires_grad=slot.tensor.requires_grad)
    slot.put(made)


_busy: set[int] = set()
_lock = Lock()


@contextmanager
def _alone(module: nn.Module) -> Iterator[None]:
    """Refuses one object that several parties, threads of a process, share at once."""
    with _lock:
        if id(module) in _busy:
            raise ConfigError(
                f"share: several parties share one {type(module).__name__} object, which becomes "
                "secret in place: build it, or copy.deepcopy it, inside main"
            )
        _busy.add(id(module))
    try:
        yield
    finally:
        with _lock:
            _busy.discard(id(module))


# Back -------------------------------------------------------------------------------------------


def reveal(n: Numbers, secret: Any, to: int | None = None) -> Any:
    """The plain tensor or module, or nest of them, at party `to` or at all; None elsewhere.

    In a nest every secret is replaced by what this party gets of it.
    """
    if to is not None:
        _check_party(n, "to", to)
    n.protocol.context.openings.require(to)  # before a value is made that only this would need
    if isinstance(secret, nn.Module):
        return _reveal_module(n, secret, to)
    leaves, form = tree_flatten_with_path(secret)
    values = [value for _, value in leaves]
    for path, value in leaves:
        if not isinstance(value, SecretTensor | nn.Module):
            place = f" at {keystr(path)}" if path else ""
            kind = type(value).__name__
            raise ConfigError(f"reveal: {kind}{place} is not a secret tensor or module")
    places = [i for i, value in enumerate(values) if isinstance(value, SecretTensor)]
    opened = reveal_many(n, [values[i].value for i in places], to)
    for i, plain in zip(places, opened, strict=True):
        values[i] = plain
    plain_values = [
        _reveal_module(n, value, to) if isinstance(value, nn.Module) else value for value in values
    ]
    return tree_unflatten(plain_values, form)


def _reveal_module(n: Numbers, module: nn.Module, to: int | None) -> nn.Module | None:
    """A plain copy of a module; the secret one stays."""
    secret = [slot for slot in slots(module) if isinstance(slot.tensor, SecretTensor)]
    opened = reveal_many(n, [_value(slot.tensor) for slot in secret], to)
    if to not in (None, n.protocol.rank):
        return None
    plain: dict[int, Any] = {}
    for slot, tensor in zip(secret, opened, strict=True):
        if tensor is not None and slot.is_parameter:
            tensor = nn.Parameter(tensor, requires_grad=slot.tensor.requires_grad)
        plain[id(slot.tensor)] = tensor
    return copy.deepcopy(module, plain)


def _value(tensor: Tensor) -> Value:
    assert isinstance(tensor, SecretTensor)
    return tensor.value
