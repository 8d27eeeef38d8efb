"""Rules of operators that move, cut and join, and that compute shapes."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import torch
from torch import fx

from . import onnx_functions as functions
from .model_file import onnx_package
from .operator_table import Call, Refused, converts


@converts("Shape")
def shape(call: Call) -> fx.Node:
    start, end = call.attribute("start", 0), call.attribute("end", None)
    return call.emit(functions.shape, call.tensor(0), start, end)


@converts("Size")
def size(call: Call) -> fx.Node:
    return call.emit(functions.size, call.tensor(0))


@converts("Reshape")
def reshape(call: Call) -> fx.Node:
    allow_zero = bool(call.attribute("allowzero", 0))
    return call.emit(functions.reshape, call.tensor(0), call.integers(1), allow_zero)


@converts("Flatten")
def flatten(call: Call) -> fx.Node:
    axis = call.attribute("axis", 1)
    if axis == 1:
        return call.emit(torch.flatten, call.tensor(0), 1)
    return call.emit(functions.flatten, call.tensor(0), axis)


@converts("Transpose")
def transpose(call: Call) -> fx.Node:
    order = call.attribute("perm", None)
    order = list(range(call.rank()))[::-1] if order is None else list(order)
    return call.emit(torch.permute, call.tensor(0), order)


@converts("Squeeze")
def squeeze(call: Call) -> fx.Node:
    axes = call.integers_of("axes", 1)
    given = () if axes is None else (axes,)
    return call.emit(torch.squeeze, call.tensor(0), *given)


@converts("Unsqueeze")
def unsqueeze(call: Call) -> fx.Node:
    axes = call.integers_of("axes", 1) or []
    if len(axes) == 1:
        return call.emit(torch.unsqueeze, call.tensor(0), axes[0])
    return call.emit(functions.unsqueeze, call.tensor(0), axes)


@converts("Concat")
def concat(call: Call) -> fx.Node:
    return call.emit(torch.cat, call.tensors(), call.attribute("axis", 0))


@converts("Split")
def split(call: Call) -> tuple[fx.Node, ...]:
    axis, sizes = call.attribute("axis", 0), call.integers_of("split", 1)
    if sizes is None:
        count = len(call.outputs)
        parts = call.emit(functions.split_evenly, call.tensor(0), count, axis)
    else:
        parts = call.emit(torch.split, call.tensor(0), sizes, axis)
    return tuple(call.emit(operator.getitem, parts, i) for i in range(len(call.outputs)))


@converts("Slice")
def slices(call: Call) -> fx.Node:
    axes, steps = (call.integers(i) if call.has(i) else None for i in (3, 4))
    bounds = call.integers(1), call.integers(2)
    return call.emit(functions.sliced, call.tensor(0), *bounds, axes, steps)


@converts("Pad")
def pad(call: Call) -> fx.Node:
    modes = {"constant": "constant", "reflect": "reflect", "edge": "replicate", "wrap": "circular"}
    mode = modes[call.attribute("mode", "constant")]
    value = call.number("value", 2, 0.0)
    axes = call.integers(3) if call.has(3) else None
    return call.emit(functions.padded, call.tensor(0), call.integers(1), axes, mode, value)


@converts("Expand")
def expand(call: Call) -> fx.Node:
    return call.emit(functions.expand, call.tensor(0), call.integers(1))


@converts("Tile")
def tile(call: Call) -> fx.Node:
    return call.emit(torch.tile, call.tensor(0), call.integers(1))


@converts("ConstantOfShape")
def constant_of_shape(call: Call) -> fx.Node:
    value = np.zeros(1, np.float32)
    if "value" in call.attributes:
        value = onnx_package("onnx.numpy_helper").to_array(call.attributes["value"])
    number, dtype = value.reshape(-1)[0].item(), torch.from_numpy(value.copy()).dtype
    return call.emit(functions.full, call.integers(0), number, dtype)


@converts("Range")
def arange(call: Call) -> fx.Node:
    return call.emit(functions.counted, *(call.operand(i) for i in range(3)))


@converts("DepthToSpace")
def depth_to_space(call: Call) -> fx.Node:
    channels_first = call.attribute("mode", "DCR") == "CRD"
    block = call.attribute("blocksize", 1)
    return call.emit(functions.depth_to_space, call.tensor(0), block, channels_first)


@converts("SpaceToDepth")
def space_to_depth(call: Call) -> fx.Node:
    return call.emit(functions.space_to_depth, call.tensor(0), call.attribute("blocksize", 1))


@converts("Trilu")
def trilu(call: Call) -> fx.Node:
    keep = torch.triu if call.attribute("upper", 1) else torch.tril
    return call.emit(keep, call.tensor(0), int(call.number("k", 1, 0)))


@converts("Cast", "CastLike")
def cast(call: Call) -> fx.Node:
    """Half precision is computed in single."""
    if call.op == "CastLike":
        return call.emit(torch.Tensor.type_as, call.tensor(0), call.tensor(1))
    return call.emit(torch.Tensor.to, call.tensor(0), _dtype(call.attribute("to", 1)))


def _dtype(code: int) -> torch.dtype:
    made: Any = onnx_package("onnx.helper").tensor_dtype_to_np_dtype(code)
    if made == np.float16 or made.name == "bfloat16":
        return torch.float32
    try:
        return torch.from_numpy(np.zeros(0, made)).dtype
    except TypeError:
        raise Refused(f"to {made}") from None
