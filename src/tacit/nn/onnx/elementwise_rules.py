"""Rules of operators that act on each element."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import fx, nn
from torch.nn import functional as F

from . import onnx_functions as functions
from .operator_table import Call, Refused, converts

UNARY: dict[str, Callable[..., Any]] = {
    "Abs": torch.abs,
    "Ceil": torch.ceil,
    "Cos": torch.cos,
    "Erf": torch.erf,
    "Exp": torch.exp,
    "Floor": torch.floor,
    "HardSwish": F.hardswish,
    "Log": torch.log,
    "Mish": F.mish,
    "Neg": torch.neg,
    "Not": torch.logical_not,
    "Reciprocal": torch.reciprocal,
    "Relu": F.relu,
    "Round": torch.round,
    "Sigmoid": torch.sigmoid,
    "Sign": torch.sign,
    "Sin": torch.sin,
    "Softplus": F.softplus,
    "Softsign": F.softsign,
    "Sqrt": torch.sqrt,
    "Tanh": torch.tanh,
}
BINARY: dict[str, Callable[..., Any]] = {
    "Add": operator.add,
    "And": operator.and_,
    "Div": functions.divided,
    "Equal": operator.eq,
    "Greater": operator.gt,
    "GreaterOrEqual": operator.ge,
    "Less": operator.lt,
    "LessOrEqual": operator.le,
    "Mul": operator.mul,
    "Or": operator.or_,
    "Pow": operator.pow,
    "Sub": operator.sub,
    "Xor": operator.xor,
}


@converts(*UNARY)
def unary(call: Call) -> fx.Node:
    return call.emit(UNARY[call.op], call.tensor(0))


@converts(*BINARY)
def binary(call: Call) -> fx.Node:
    return call.emit(BINARY[call.op], call.operand(0), call.operand(1))


@converts("Mod")
def mod(call: Call) -> fx.Node:
    remainder = torch.fmod if call.attribute("fmod", 0) else torch.remainder
    return call.emit(remainder, call.tensor(0), call.operand(1))


@converts("Min", "Max", "Sum", "Mean")
def variadic(call: Call) -> fx.Node:
    given = [call.operand(i) for i in range(len(call.inputs))]
    if call.op in ("Min", "Max"):
        return call.emit(functions.smallest if call.op == "Min" else functions.largest, *given)
    found = given[0]
    for one in given[1:]:
        found = call.emit(operator.add, found, one)
    return found if call.op == "Sum" else call.emit(operator.mul, found, 1 / len(given))


@converts("Where")
def where(call: Call) -> fx.Node:
    return call.emit(torch.where, call.tensor(0), call.operand(1), call.operand(2))


@converts("Clip")
def clip(call: Call) -> fx.Node:
    low, high = (call.number(name, index, None) for name, index in (("min", 1), ("max", 2)))
    if low is None and high is None:
        return call.tensor(0)
    return call.emit(torch.clamp, call.tensor(0), low, high)


@converts("LeakyRelu")
def leaky_relu(call: Call) -> fx.Node:
    return call.emit(F.leaky_relu, call.tensor(0), call.attribute("alpha", 0.01))


@converts("Elu")
def elu(call: Call) -> fx.Node:
    return call.emit(F.elu, call.tensor(0), call.attribute("alpha", 1.0))


@converts("Celu")
def celu(call: Call) -> fx.Node:
    return call.emit(F.celu, call.tensor(0), call.attribute("alpha", 1.0))


@converts("Selu")
def selu(call: Call) -> fx.Node:
    if "alpha" in call.attributes or "gamma" in call.attributes:
        raise Refused("alpha or gamma of its own")
    return call.emit(F.selu, call.tensor(0))


@converts("HardSigmoid")
def hard_sigmoid(call: Call) -> fx.Node:
    slope = call.emit(operator.mul, call.tensor(0), call.attribute("alpha", 0.2))
    return call.emit(
        torch.clamp, call.emit(operator.add, slope, call.attribute("beta", 0.5)), 0.0, 1.0
    )


@converts("Gelu")
def gelu(call: Call) -> fx.Node:
    return call.emit(F.gelu, call.tensor(0), approximate=call.attribute("approximate", "none"))


@converts("PRelu")
def prelu(call: Call) -> fx.Node:
    slope = call.weight(1, "a slope")
    x = call.tensor(0)
    if (slope.numel() == slope.shape[0] and call.rank() - slope.dim() == 1) or slope.numel() == 1:
        layer = nn.PReLU(slope.numel())
        layer.weight = nn.Parameter(slope.detach().reshape(-1))
        return call.layer(layer, x)
    low = call.emit(torch.clamp, x, max=0.0)
    return call.emit(
        operator.add, call.emit(F.relu, x), call.emit(operator.mul, low, call.tensor(1))
    )


@converts("Softmax", "LogSoftmax")
def softmax(call: Call) -> fx.Node:
    logarithm = call.op == "LogSoftmax"
    axis = call.attribute("axis", -1 if call.opset >= 13 else 1)
    shape = call.shape(0)
    if call.opset < 13 and axis != -1 and (shape is None or axis != len(shape) - 1):
        return call.emit(functions.softmax_from, call.tensor(0), axis, logarithm)
    return call.emit(F.log_softmax if logarithm else F.softmax, call.tensor(0), axis)


@converts("Dropout")
def dropout(call: Call) -> fx.Node:
    """A dropout is active in training mode only, whatever the file says."""
    call.only_first_output()
    return call.layer(nn.Dropout(float(call.number("ratio", 1, 0.5))), call.tensor(0))


@converts("Identity")
def identity(call: Call) -> fx.Node:
    return call.tensor(0)
