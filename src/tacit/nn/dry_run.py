"""A model on secrets, run by one party alone: to see what a real run would do, and nothing more."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from ..config import Config
from ..crypto import agree_keys
from ..fixedpoint import Numbers
from ..fixedpoint.transfer import Input, share_many
from ..protocols import Cleartext, Context
from ..ring import RING32, RING64
from ..tensor import SecretTensor
from ..transport import Limits, Mesh
from ..transport.local.memory import Desk
from .module_tensors import ModuleTensor, module_tensors

ALONE = 0  # the rank of the only party


def lone_numbers(
    config: Config, *, range_bits: int | None = None, protocol: type[Cleartext] = Cleartext
) -> Numbers:
    """Arithmetic of the same rounding as a real session's, by one party, without secrets."""
    mesh = Mesh(ALONE, (), Desk(()), Limits())
    keys = agree_keys(mesh.exchange_bytes, rank=ALONE, parties=1, session=b"rehearsal")
    context = Context(mesh, keys, RING32 if config.ring == 32 else RING64)
    return Numbers(
        protocol(context),
        fraction_bits=config.fraction_bits,
        range_bits=range_bits,
        debug=config.debug,
    )


def secret_copy(n: Numbers, module: nn.Module, kind: type[SecretTensor] = SecretTensor) -> Any:
    """A copy of a module with its parameters and floating buffers secret; hooks are copied too."""
    made: dict[int, Any] = {}
    for entry in module_tensors(module):
        if entry.becomes_secret:
            made[id(entry.tensor)] = _secret(n, entry, kind)
    return copy.deepcopy(module, made)


def _secret(n: Numbers, entry: ModuleTensor, kind: type[SecretTensor]) -> Tensor:
    made = secret(n, entry.tensor.detach(), kind, path=entry.path)
    if entry.is_parameter:
        return nn.Parameter(made, requires_grad=entry.tensor.requires_grad)
    return made


def secret(
    n: Numbers,
    tensor: Tensor,
    kind: type[SecretTensor] = SecretTensor,
    *,
    path: str = "the tensor",
) -> SecretTensor:
    """A plain tensor as a secret of the lone party."""
    [value] = share_many(n, [Input(tensor.shape, tensor.dtype, tensor, path)], ALONE)
    return kind(value, n)


def call(model: nn.Module, example: Any) -> Any:
    """model(*example), model(**example) or model(example), as its kind says."""
    if isinstance(example, dict):
        return model(**example)
    if isinstance(example, tuple | list):
        return model(*example)
    return model(example)


def secret_example(n: Numbers, example: Any, kind: type[SecretTensor] = SecretTensor) -> Any:
    """The example with every tensor in it secret."""
    return tree_map(lambda x: secret(n, x.detach(), kind) if isinstance(x, Tensor) else x, example)


def plain(tensor: SecretTensor) -> Tensor:
    """What a secret of the lone party is."""
    opened = tensor.numbers.reveal(tensor.value)
    assert opened is not None
    return opened


def in_range(n: Numbers, tensor: Tensor) -> Tensor:
    """The nearest numbers that a secret can be."""
    if not tensor.is_floating_point():
        return tensor
    end = 2.0**n.range_bits
    return torch.nan_to_num(tensor, nan=0.0, posinf=end, neginf=-end).clamp(-end, end)
