"""Shares and reveals tensors, modules, and nests of them."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import SequenceKey, keystr, tree_flatten_with_path, tree_unflatten

from ..errors import ConfigError, Party, UnsupportedModule
from ..fixedpoint import Input, Numbers, Value
from ..protocols import PrivacySpent
from ..tensor import SecretTensor
from ..transport.consensus import agree
from . import shared_norms
from .guarding import watch_modules
from .integer_buffers import named_public, publish
from .module_tensors import (
    ModuleTensor,
    describe,
    fixed_norms,
    module_tensors,
    unsharable,
    warn_of_rough_statistics,
    warn_of_small_eps,
)
from .sharable import Number, as_tensor, form_of, is_list_of_numbers, tensor_or_form


def share(
    n: Numbers,
    value: Any,
    owner: int,
    shape: Sequence[int] | None = None,
    *,
    dtype: torch.dtype | None = None,
    public: Collection[str] = (),
) -> Any:
    """Returns the owner's tensor or module, or a nest of them, as secrets."""
    _check_party(n, "owner", owner)
    if n.trace is not None:
        n.trace.note_shared(value)
    is_module = isinstance(value, nn.Module)
    is_nest = isinstance(value, list | tuple | dict) and not is_list_of_numbers(value)
    if (is_module or is_nest) and (shape is not None or dtype is not None):
        raise ConfigError(f"{shape=}, {dtype=}", limit="for a single tensor", subject="share")
    if public and not is_module:
        raise ConfigError(f"{public=}", limit="for buffers of a module", subject="share")
    if is_module:
        return share_module(n, value, owner, public)
    if is_nest:
        return _share_nested(n, value, owner)
    return share_tensor(n, tensor_or_form(value, shape, dtype), owner)


def _check_party(n: Numbers, name: str, party: int) -> None:
    parties = n.protocol.parties
    if party not in range(parties):
        raise ConfigError(f"{name}={party!r}", limit=f"the parties are 0 to {parties - 1}")


def share_tensor(n: Numbers, tensor: Tensor, owner: int) -> SecretTensor:
    """Returns the owner's tensor as a secret; the others give one of the same shape and dtype."""
    [made] = n.share_many([_input(n, "the tensor", tensor, owner)], owner)
    return SecretTensor(made, n)


def _input(n: Numbers, path: str, tensor: Tensor, owner: int) -> Input:
    """Returns what this party contributes: shape and dtype, and the values if it is the owner."""
    _require_values(n, path, tensor, owner)
    return n.checked_input(tensor, path, mine=n.protocol.rank == owner)


def _require_values(n: Numbers, path: str, tensor: Tensor, owner: int) -> None:
    """Raises ConfigError if a tensor is secret, or its owner has no values for it."""
    if isinstance(tensor, SecretTensor):
        raise ConfigError(f"{path} is secret already", subject="share")
    if n.protocol.rank == owner and tensor.is_meta:
        raise ConfigError(
            f"{path} has no values (meta device) at its owner, " + Party(owner), subject="share"
        )


def _share_nested(n: Numbers, nest: Any, owner: int) -> Any:
    """Shares every tensor of nested lists, tuples and dicts in few messages; modules one by one."""
    leaves, form = tree_flatten_with_path(nest, is_leaf=is_list_of_numbers)
    paths = [keystr(path) for path, _ in leaves]
    values: list[Any] = [_leaf(path, value) for path, value in leaves]
    forms = {path: form_of(value) for path, value in zip(paths, values, strict=True)}
    agree(n.protocol.context.mesh, forms, topic="share")
    places = [i for i, value in enumerate(values) if not isinstance(value, nn.Module)]
    made = n.share_many([_input(n, paths[i], values[i], owner) for i in places], owner)
    for i, value in enumerate(values):
        if isinstance(value, nn.Module):
            values[i] = share_module(n, value, owner)
    for i, secret in zip(places, made, strict=True):
        values[i] = SecretTensor(secret, n)
    return tree_unflatten(values, form)


def _leaf(path: tuple[Any, ...], value: Any) -> Tensor | nn.Module:
    if isinstance(value, nn.Module):
        return value
    if isinstance(value, Number) and isinstance(path[-1], SequenceKey):
        raise ConfigError(
            f"{keystr(path)} is a number in a tuple, or beside tensors in a list",
            limit="tuples and such lists are shared entry by entry",
            remedy="for one tensor, share a list of numbers or torch.tensor(...)",
            subject="share",
        )
    return as_tensor(value, keystr(path))


# Modules ----------------------------------------------------------------------------------------


def share_module(
    n: Numbers, module: nn.Module, owner: int, public: Collection[str] = ()
) -> nn.Module:
    """Makes the parameters and buffers of a module secret, in place.

    Class, code, hooks and ties stay. Integer and bool buffers stay public if all parties hold the
    same, and the owner's are revealed if `public` names them: see `integer_buffers.py`. Every party
    gives the same architecture; a difference is a ConfigError, before anything is sent. 1 round to
    compare, 2 or 3 for integer buffers, then a message for every 2^23 elements.
    """
    with _exclusive(module):
        tensors = module_tensors(module)
        _check_sharable(module, tensors)
        named = named_public(tensors, public) if public else []
        for entry in tensors:
            _require_values(n, entry.path, entry.tensor, owner)
        inputs = {id(x): _input(n, x.path, x.tensor, owner) for x in tensors if x.has_secret_kind}
        if n.protocol.rank == owner:
            warn_of_rough_statistics(n, tensors)
        lines = describe(module, tensors) | {"public=": ", ".join(named)}
        agree(n.protocol.context.mesh, lines, topic="share")
        integers = [entry for entry in tensors if not entry.has_secret_kind]
        for entry in publish(n, integers, owner, named) if integers else []:
            inputs[id(entry)] = _input(n, entry.path, entry.tensor, owner)
        secret = [entry for entry in tensors if id(entry) in inputs]
        norms = [] if n.is_plain else fixed_norms(module)
        more = shared_norms.inputs_of(n, norms, mine=n.protocol.rank == owner) if norms else []
        shared = n.share_many([*(inputs[id(entry)] for entry in secret), *more], owner)
        values, made = shared[: len(secret)], shared[len(secret) :]
        for entry, value in zip(secret, values, strict=True):
            replace_by_secret(n, entry, value)
        if norms:
            shared_norms.keep(n, norms, made)
        pairs = zip(secret, values, strict=True)
        n.mark_parameters([value for entry, value in pairs if entry.is_parameter])
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


def reveal(
    n: Numbers,
    secret: Any,
    to: int | None = None,
    *,
    to_dealer: bool = False,
    privacy: PrivacySpent | None = None,
) -> Any:
    """Returns the plain tensor or module, or nest of them, at party `to` or at all; else None.

    In a nest every secret is replaced by what this party gets of it. privacy: what the reveal
    costs, if it is differentially private.
    """
    if to is not None:
        _check_party(n, "to", to)
    # Before lazy values are computed for it.
    n.protocol.context.reveal_policy.require(to, privacy)
    if isinstance(secret, nn.Module):
        return _reveal_module(n, secret, to, to_dealer, privacy)
    leaves, form = tree_flatten_with_path(secret)
    values = [value for _, value in leaves]
    for path, value in leaves:
        if not isinstance(value, SecretTensor | nn.Module):
            place = f" at {keystr(path)}" if path else ""
            kind = type(value).__name__
            raise ConfigError(f"{kind}{place} is not a secret tensor or module", subject="reveal")
    places = [i for i, value in enumerate(values) if isinstance(value, SecretTensor)]
    origins = [values[i].origin for i in places]
    chosen = [values[i].value for i in places]
    opened = n.reveal_many(chosen, to, origins, to_dealer=to_dealer, privacy=privacy)
    for i, plain in zip(places, opened, strict=True):
        values[i] = plain
    for i, value in enumerate(values):
        if isinstance(value, nn.Module):
            rest = privacy and (privacy.counted if places or i else privacy)
            values[i] = _reveal_module(n, value, to, to_dealer, rest)
    return tree_unflatten(values, form)


def _reveal_module(
    n: Numbers, module: nn.Module, to: int | None, to_dealer: bool, privacy: PrivacySpent | None
) -> nn.Module | None:
    """Returns a plain copy of a module, which stays secret."""
    secret = [entry for entry in module_tensors(module) if isinstance(entry.tensor, SecretTensor)]
    origins = [entry.tensor.origin for entry in secret]  # type: ignore[attr-defined]
    values = [_value(entry.tensor) for entry in secret]
    opened = n.reveal_many(values, to, origins, to_dealer=to_dealer, privacy=privacy)
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
