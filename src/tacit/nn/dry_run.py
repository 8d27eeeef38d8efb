"""A model on secrets at one party without peers: shows what a real run would do.

`validate` and `calibrate` use it; nothing is secret here.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from ..config import Config
from ..fixedpoint import Numbers, Value
from ..protocols import ALONE, cleartext_alone
from ..protocols.observed import Observer
from ..tensor import SecretTensor
from .module_tensors import ModuleTensor, module_tensors


def lone_numbers(
    config: Config, *, range_bits: int | None = None, observer: Observer | None = None
) -> Numbers:
    """Returns arithmetic that rounds as a real session's does, at one party and without secrets.

    `observer` is called with the operand and the size of every comparison.
    """
    return Numbers(
        cleartext_alone(config, observer),
        fraction_bits=config.fraction_bits,
        range_bits=range_bits,
        debug=config.debug,
    )


def secret_copy(n: Numbers, module: nn.Module) -> Any:
    """Returns a copy of a module, hooks included, with secret parameters and floating buffers."""
    made: dict[int, Any] = {}
    for entry in module_tensors(module):
        if entry.has_secret_kind:
            made[id(entry.tensor)] = _secret(n, entry)
    return copy.deepcopy(module, made)


def _secret(n: Numbers, entry: ModuleTensor) -> Tensor:
    value = _share(n, entry.tensor.detach(), entry.path)
    if entry.is_parameter:
        return SecretTensor.parameter(value, n, requires_grad=entry.tensor.requires_grad)
    return SecretTensor(value, n)


def secret(n: Numbers, tensor: Tensor) -> SecretTensor:
    """Returns a plain tensor as a secret of the only party."""
    return SecretTensor(_share(n, tensor, "the tensor"), n)


def _share(n: Numbers, tensor: Tensor, path: str) -> Value:
    [value] = n.share_many([n.checked_input(tensor, path, mine=True)], ALONE)
    return value


def call(model: nn.Module, example: Any) -> Any:
    """Returns model(*example), model(**example) or model(example), depending on its type."""
    if isinstance(example, dict):
        return model(**example)
    if isinstance(example, tuple | list):
        return model(*example)
    return model(example)


def secret_example(n: Numbers, example: Any) -> Any:
    """Returns the example with every tensor in it secret."""
    return tree_map(lambda x: secret(n, x.detach()) if isinstance(x, Tensor) else x, example)


def plain(tensor: SecretTensor) -> Tensor:
    """Returns the values of a secret."""
    opened = tensor.numbers.reveal(tensor.value)
    assert opened is not None
    return opened


def in_range(n: Numbers, tensor: Tensor) -> Tensor:
    """Returns the tensor clamped to the range of secrets, with 0 for NaN."""
    if not tensor.is_floating_point():
        return tensor
    end = 2.0**n.range_bits
    return torch.nan_to_num(tensor, nan=0.0, posinf=end, neginf=-end).clamp(-end, end)
