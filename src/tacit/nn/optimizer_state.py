"""The state of torch's optimizers as named tensors and plain settings, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from ..errors import ConfigError
from ..fixedpoint import Numbers, Value
from ..tensor import SecretTensor
from .checkpoint_contents import SavedState


def parameters(optimizer: Optimizer) -> list[Tensor]:
    """Returns the parameters of an optimizer, in its order."""
    return [p for group in optimizer.param_groups for p in group["params"]]


def add_to(state: SavedState, optimizer: Optimizer) -> None:
    """Adds the state of an optimizer to what a checkpoint saves."""
    groups = []
    for g, group in enumerate(optimizer.param_groups):
        options = {name: x for name, x in group.items() if name != "params"}
        groups.append({k: _encode(state, f"group {g}/{k}", x) for k, x in options.items()})
    states = [
        {k: _encode(state, f"state {i}/{k}", x) for k, x in optimizer.state.get(p, {}).items()}
        for i, p in enumerate(parameters(optimizer))
    ]
    kind = type(optimizer).__name__
    state.plain["optimizer"] = {"kind": kind, "groups": groups, "states": states}


def _encode(state: SavedState, name: str, x: Any) -> Any:
    """Returns x as JSON; adds a tensor to the saved state, under its name."""
    if isinstance(x, Tensor):
        state.tensors[name] = x
        return {"tensor": name}
    if isinstance(x, tuple):
        return {"tuple": [_encode(state, f"{name}/{i}", one) for i, one in enumerate(x)]}
    if x is None or isinstance(x, bool | int | float | str):
        return x
    raise ConfigError(
        f"the optimizer's {name} is a {type(x).__name__}, which has no format", subject="save"
    )


def restore(
    n: Numbers, optimizer: Optimizer, plain: dict[str, Any], tensors: dict[str, Any]
) -> None:
    """Restores the saved state in an optimizer over the same parameters."""
    for group, options in zip(optimizer.param_groups, plain["groups"], strict=True):
        group.update({name: _decode(n, x, tensors) for name, x in options.items()})
    for parameter, state in zip(parameters(optimizer), plain["states"], strict=True):
        optimizer.state[parameter] = {name: _decode(n, x, tensors) for name, x in state.items()}


def _decode(n: Numbers, x: Any, tensors: dict[str, Any]) -> Any:
    if not isinstance(x, dict):
        return x
    if "tuple" in x:
        return tuple(_decode(n, one, tensors) for one in x["tuple"])
    found = tensors[x["tensor"]]
    return SecretTensor(found, n) if isinstance(found, Value) else found


def check(plain: Any, tensors: Mapping[str, Any]) -> None:
    """Raises ValueError, LookupError or TypeError unless `add_to` could have written this."""
    if plain is None:
        return
    if not isinstance(plain["kind"], str) or any("params" in group for group in plain["groups"]):
        raise ValueError("this is no optimizer")
    for options in (*plain["groups"], *plain["states"]):
        for x in options.values():
            _check(x, tensors)


def _check(x: Any, tensors: Mapping[str, Any]) -> None:
    if isinstance(x, dict):
        [kind] = x
        if kind == "tuple":
            for one in x["tuple"]:
                _check(one, tensors)
        else:
            tensors[x["tensor"]]
    elif not (x is None or isinstance(x, bool | int | float | str)):
        raise ValueError("an optimizer has no such setting")


def mismatch(optimizer: Optimizer | None, plain: dict[str, Any] | None) -> str | None:
    """Returns why an optimizer cannot take the saved state, or None."""
    if optimizer is None:
        return None
    kind = type(optimizer).__name__
    if plain is None:
        return f"it holds no optimizer, and {kind} is to be loaded: leave optimizer out"
    if plain["kind"] != kind:
        return f"it holds the state of {plain['kind']}, not of {kind}"
    shapes = len(plain["groups"]), len(plain["states"])
    if shapes != (len(optimizer.param_groups), len(parameters(optimizer))):
        return f"its {kind} has {shapes[1]} parameters in {shapes[0]} groups, not those of this one"
    return None


def replace_parameters(optimizer: Optimizer, replaced: dict[int, Tensor]) -> None:
    """Makes an optimizer train the tensors that replaced its parameters."""
    for group in optimizer.param_groups:
        group["params"] = [replaced.get(id(p), p) for p in group["params"]]
    if torch.is_tensor(next(iter(optimizer.state), None)):
        kept = {replaced.get(id(p), p): state for p, state in optimizer.state.items()}
        optimizer.state.clear()
        optimizer.state.update(kept)
