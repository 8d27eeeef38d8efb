"""Tensors and modules into secrets and back."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import ConfigError
from ..fixedpoint import Numbers
from ..tensor import SecretTensor


def share(n: Numbers, value: Any, owner: int, shape: Sequence[int] | None = None) -> Any:
    """The owner's tensor or module, or a nest of them, as secrets."""
    if isinstance(value, nn.Module):
        return share_module(n, value, owner)
    if isinstance(value, list | tuple):
        return type(value)(share(n, one, owner) for one in value)
    if isinstance(value, dict):
        return {key: share(n, one, owner) for key, one in value.items()}
    return share_tensor(n, value, owner, shape)


def share_tensor(
    n: Numbers, value: Tensor | None, owner: int, shape: Sequence[int] | None = None
) -> SecretTensor:
    """A secret tensor of the owner's values; float32 where only a shape is given."""
    if isinstance(value, SecretTensor):
        raise ConfigError("share: this tensor is secret already")
    if value is None and shape is None:
        raise ConfigError("share: a party that is not the owner gives a tensor alike, or shape=")
    if value is not None and shape is None:
        shape = value.shape
    dtype = torch.float32 if value is None else value.dtype
    assert shape is not None
    mine = value if n.protocol.rank == owner else None
    return SecretTensor(n.share(mine, owner, tuple(shape), dtype), n)


def share_module(n: Numbers, module: nn.Module, owner: int) -> nn.Module:
    """The same module, with its parameters and floating buffers secret."""

    def secret(tensor: Tensor) -> SecretTensor:
        return share_tensor(n, tensor.detach(), owner)

    return _changed(module, secret, lambda buffer: buffer.is_floating_point())


def reveal(n: Numbers, secret: Any, to: int | None = None) -> Any:
    """The plain tensor or module, or nest of them, at party `to` or at all."""
    if isinstance(secret, nn.Module):
        plain = copy.deepcopy(secret)
        _changed(plain, lambda t: _opened(n, t, to), lambda b: isinstance(b, SecretTensor))
        return plain if to in (None, n.protocol.rank) else None
    if isinstance(secret, list | tuple):
        return type(secret)(reveal(n, one, to) for one in secret)
    if isinstance(secret, dict):
        return {key: reveal(n, one, to) for key, one in secret.items()}
    if not isinstance(secret, SecretTensor):
        raise ConfigError(f"reveal: {type(secret).__name__} is not a secret tensor or module")
    return n.reveal(secret.value, to)


def _opened(n: Numbers, tensor: Tensor, to: int | None) -> Tensor:
    if not isinstance(tensor, SecretTensor):
        return tensor
    plain = n.reveal(tensor.value, to)
    return torch.zeros(tensor.shape, dtype=tensor.dtype) if plain is None else plain


def _changed(
    module: nn.Module, change: Callable[[Tensor], Tensor], which: Callable[[Tensor], bool]
) -> nn.Module:
    """The module with its parameters and some buffers replaced; tied tensors stay tied."""
    made: dict[int, Tensor] = {}
    for part in module.modules():
        for name, parameter in part._parameters.items():
            if parameter is not None:
                if id(parameter) not in made:
                    new = nn.Parameter(change(parameter), requires_grad=parameter.requires_grad)
                    made[id(parameter)] = new
                part._parameters[name] = made[id(parameter)]  # type: ignore[assignment]
        for name, buffer in part._buffers.items():
            if buffer is not None and which(buffer):
                if id(buffer) not in made:
                    made[id(buffer)] = change(buffer)
                part._buffers[name] = made[id(buffer)]
    return module
