"""State dicts of CrypTen's modules: tensors by path, secret if the module is encrypted."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import torch

from ....errors import ConfigError
from ..cryptensor import CrypTensor
from ..refused_call import RefusedAssertion
from ..wrapping import unwrapped


def state_dict(
    module: Any,
    destination: dict[str, Any] | None = None,
    prefix: str = "",
    keep_vars: bool = False,
) -> dict[str, Any]:
    """Returns the parameters and buffers by path, without history unless `keep_vars`."""
    found: dict[str, Any] = OrderedDict() if destination is None else destination
    for path, tensor in _tensors(module).items():
        found[prefix + path] = tensor if keep_vars else tensor.detach()
    return found


def load_state_dict(module: Any, state_dict: Mapping[str, Any], strict: bool = True) -> None:
    """Copies the tensors of a state dict; `strict`: the module and it have the same paths.

    A module that is not encrypted takes no secrets, and an encrypted one no plain tensors.
    """
    own = _tensors(module)
    if strict and own.keys() != state_dict.keys():
        differing = ", ".join(sorted(own.keys() ^ state_dict.keys()))
        raise ConfigError(f"in the module or the state dict, not in both: {differing}")
    for path in own.keys() & state_dict.keys():
        _require_alike(path, own[path], state_dict[path])
    with torch.no_grad():
        for path in own.keys() & state_dict.keys():
            unwrapped(own[path]).copy_(unwrapped(state_dict[path]))


def _tensors(module: Any) -> dict[str, Any]:
    return dict(module.named_parameters()) | dict(module.named_buffers())


def _require_alike(path: str, own: Any, given: Any) -> None:
    if isinstance(own, CrypTensor) != isinstance(given, CrypTensor):
        kinds = ("secret", "plain") if isinstance(own, CrypTensor) else ("plain", "secret")
        raise RefusedAssertion(
            f"{path} is {kinds[0]} in the module, {kinds[1]} in the state dict",
            remedy="call encrypt() or decrypt() of the module before",
        )
    if own.shape != given.shape:
        raise ConfigError(
            f"{path} has shape {tuple(own.shape)} in the module, {tuple(given.shape)} in the "
            "state dict"
        )
