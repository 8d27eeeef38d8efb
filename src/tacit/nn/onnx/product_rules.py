"""Rules of matrix products, convolutions and embeddings; constant factors become layers."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn import functional as F

from . import onnx_functions as functions
from .operator_table import Call, Refused, converts

CONVOLUTIONS: tuple[Any, ...] = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
TRANSPOSED: tuple[Any, ...] = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)


def linear(weight: Tensor, bias: Tensor | None) -> nn.Linear:
    """Returns the layer with a weight of shape (outputs, inputs)."""
    outputs, inputs = weight.shape
    layer = nn.Linear(inputs, outputs, bias=bias is not None, device="meta")
    layer.weight = _parameter(weight)
    if bias is not None:
        layer.bias = _parameter(bias)
    return layer


def _parameter(weight: Tensor) -> nn.Parameter:
    if isinstance(weight, nn.Parameter):
        return weight
    return nn.Parameter(weight.detach().clone(memory_format=torch.contiguous_format))


@converts("Gemm")
def gemm(call: Call) -> fx.Node:
    alpha, beta = call.attribute("alpha", 1.0), call.attribute("beta", 1.0)
    x = call.tensor(0)
    if call.attribute("transA", 0):
        x = call.emit(torch.t, x)
    bias, weight = call.constant(2), call.constant(1)
    if weight is not None and alpha == 1 and (not call.has(2) or _is_row(call, beta)):
        matrix = call.weight(1, "a weight")
        matrix = matrix if call.attribute("transB", 0) else matrix.t()
        added = None if bias is None else call.weight(2, "a bias")
        if added is not None and added.shape != matrix.shape[:1]:
            added = added.detach().reshape(-1).expand(matrix.shape[0])
        return call.layer(linear(matrix, added), x)
    factor = call.tensor(1)
    if call.attribute("transB", 0):
        factor = call.emit(torch.t, factor)
    product = call.emit(torch.matmul, x, factor)
    product = product if alpha == 1 else call.emit(operator.mul, product, alpha)
    if not call.has(2):
        return product
    summand = call.tensor(2) if beta == 1 else call.emit(operator.mul, call.tensor(2), beta)
    return call.emit(operator.add, product, summand)


def _is_row(call: Call, beta: float) -> bool:
    bias = call.constant(2)
    return bias is not None and beta == 1 and bias.array.size == (bias.array.shape or (1,))[-1]


@converts("MatMul")
def matmul(call: Call) -> fx.Node:
    factor = call.constant(1)
    if factor is not None and factor.is_weight and factor.array.ndim == 2:
        return call.layer(linear(call.weight(1, "a weight").t(), None), call.tensor(0))
    return call.emit(torch.matmul, call.tensor(0), call.tensor(1))


@converts("Einsum")
def einsum(call: Call) -> fx.Node:
    return call.emit(torch.einsum, call.attribute("equation", ""), *call.tensors())


@converts("Gather")
def gather(call: Call) -> fx.Node:
    axis, table = call.attribute("axis", 0), call.constant(0)
    if table is not None and table.is_weight and axis == 0 and table.array.ndim == 2:
        weight = call.weight(0, "a table")
        layer = nn.Embedding(weight.shape[0], weight.shape[1], device="meta")
        layer.weight = _parameter(weight)
        return call.layer(layer, call.tensor(1))
    chosen = call.constant(1)
    indices = call.tensor(1) if chosen is None or chosen.array.ndim else int(chosen.array)
    return call.emit(functions.taken, call.tensor(0), indices, axis)


@converts("GatherElements")
def gather_elements(call: Call) -> fx.Node:
    return call.emit(torch.gather, call.tensor(0), call.attribute("axis", 0), call.tensor(1))


# Convolutions -------------------------------------------------------------------------------------


def halves(pads: list[int]) -> list[int] | None:
    """Returns pads that are the same on both sides; None for others."""
    half = len(pads) // 2
    return pads[:half] if pads[:half] == pads[half:] else None


@converts("Conv")
def conv(call: Call) -> fx.Node:
    weight = call.constant(1)
    rank = call.rank(1) - 2
    if not 1 <= rank <= 3:
        raise Refused(f"{rank} dimensions")
    kernel = list(weight.array.shape[2:]) if weight else call.attribute("kernel_shape", None)
    strides = list(call.attribute("strides", [1] * rank))
    dilations = list(call.attribute("dilations", [1] * rank))
    groups = call.attribute("group", 1)
    x, pads = call.tensor(0), list(call.attribute("pads", [0] * 2 * rank))
    automatic = call.attribute("auto_pad", "NOTSET")
    if automatic.startswith("SAME"):
        lower = automatic == "SAME_LOWER"
        x = call.emit(functions.padded_alike, x, kernel, strides, dilations, lower, "constant")
        pads = [0] * 2 * rank
    elif automatic == "VALID":
        pads = [0] * 2 * rank
    if halves(pads) is None:
        x = call.emit(functions.padded, x, pads, list(range(2, 2 + rank)), "constant", 0.0)
        pads = [0] * 2 * rank
    sizes = (strides, pads[:rank], dilations)
    if weight is None:
        function = (F.conv1d, F.conv2d, F.conv3d)[rank - 1]
        bias = call.tensor(2) if call.has(2) else None
        return call.emit(function, x, call.tensor(1), bias, *sizes, groups)
    outputs, inputs = weight.array.shape[:2]
    layer = CONVOLUTIONS[rank - 1](
        inputs * groups, outputs, kernel, *sizes, groups, bias=call.has(2), device="meta"
    )
    return call.layer(_filled(call, layer), x)


@converts("ConvTranspose")
def conv_transpose(call: Call) -> fx.Node:
    weight = call.weight(1, "a weight")
    rank = weight.dim() - 2
    if not 1 <= rank <= 3:
        raise Refused(f"{rank} dimensions")
    call.refuse_attribute("auto_pad", "NOTSET", "VALID")
    if "output_shape" in call.attributes:
        raise Refused("output_shape")
    pads = list(call.attribute("pads", [0] * 2 * rank))
    extra = list(call.attribute("output_padding", [0] * rank))
    groups = call.attribute("group", 1)
    # What lies beyond the smaller pad is cut off afterwards.
    common = [min(pair) for pair in zip(pads[:rank], pads[rank:], strict=True)]
    layer = TRANSPOSED[rank - 1](
        weight.shape[0],
        weight.shape[1] * groups,
        list(weight.shape[2:]),
        list(call.attribute("strides", [1] * rank)),
        common,
        extra,
        groups,
        call.has(2),
        list(call.attribute("dilations", [1] * rank)),
        device="meta",
    )
    found = call.layer(_filled(call, layer), call.tensor(0))
    if halves(pads) is not None:
        return found
    cut = [small - pad for pad, small in zip(pads, common * 2, strict=True)]
    return call.emit(functions.padded, found, cut, list(range(2, 2 + rank)), "constant", 0.0)


def _filled(call: Call, layer: Any) -> nn.Module:
    layer.weight = _parameter(call.weight(1, "a weight"))
    if call.has(2):
        layer.bias = _parameter(call.weight(2, "a bias"))
    made: nn.Module = layer
    return made
