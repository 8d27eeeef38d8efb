"""Rules of normalisations, as torch's layers."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, fx, nn

from . import onnx_functions as functions
from .operator_table import Call, Refused, converts

BATCH_NORMS = {2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d, 5: nn.BatchNorm3d}
INSTANCE_NORMS = {3: nn.InstanceNorm1d, 4: nn.InstanceNorm2d, 5: nn.InstanceNorm3d}


def _filled(layer: Any, weight: Tensor, bias: Tensor | None) -> nn.Module:
    layer.weight = nn.Parameter(weight.detach())
    layer.bias = None if bias is None else nn.Parameter(bias.detach())
    made: nn.Module = layer
    return made


@converts("BatchNormalization")
def batch_normalization(call: Call) -> fx.Node:
    call.refuse_attribute("training_mode", 0)
    call.only_first_output()
    scale, bias, mean, variance = (call.weight(i, "statistics") for i in range(1, 5))
    made = BATCH_NORMS.get(call.rank())
    if made is None:
        raise Refused(f"{call.rank()} dimensions")
    layer = made(
        scale.shape[0],
        call.attribute("epsilon", 1e-5),
        1 - call.attribute("momentum", 0.9),
    )
    layer.running_mean, layer.running_var = mean.detach().clone(), variance.detach().clone()
    return call.layer(_filled(layer, scale, bias), call.tensor(0))


@converts("InstanceNormalization")
def instance_normalization(call: Call) -> fx.Node:
    scale, bias = call.weight(1, "a scale"), call.weight(2, "a bias")
    made = INSTANCE_NORMS.get(call.rank())
    if made is None:
        raise Refused(f"{call.rank()} dimensions")
    layer = made(scale.shape[0], call.attribute("epsilon", 1e-5), affine=True)
    return call.layer(_filled(layer, scale, bias), call.tensor(0))


@converts("LayerNormalization")
def layer_normalization(call: Call) -> fx.Node:
    call.only_first_output()
    scale = call.weight(1, "a scale")
    bias = call.weight(2, "a bias") if call.has(2) else None
    axis = call.attribute("axis", -1)
    if scale.dim() != (-axis if axis < 0 else call.rank() - axis):
        raise Refused("a scale of another shape than what is normalised")
    layer = nn.LayerNorm(list(scale.shape), call.attribute("epsilon", 1e-5), bias=bias is not None)
    return call.layer(_filled(layer, scale, bias), call.tensor(0))


@converts("GroupNormalization")
def group_normalization(call: Call) -> fx.Node:
    scale, bias = call.weight(1, "a scale"), call.weight(2, "a bias")
    layer = nn.GroupNorm(
        call.attribute("num_groups", 1), scale.shape[0], call.attribute("epsilon", 1e-5)
    )
    return call.layer(_filled(layer, scale, bias), call.tensor(0))


@converts("LRN")
def local_response_normalization(call: Call) -> fx.Node:
    layer = nn.LocalResponseNorm(
        call.attribute("size", 1),
        call.attribute("alpha", 1e-4),
        call.attribute("beta", 0.75),
        call.attribute("bias", 1.0),
    )
    return call.layer(layer, call.tensor(0))


@converts("LpNormalization")
def lp_normalization(call: Call) -> fx.Node:
    call.refuse_attribute("p", 2)
    x = call.tensor(0)
    norm = call.emit(functions.reduced, x, "l2", [call.attribute("axis", -1)], True)
    return call.emit(torch.div, x, norm)
