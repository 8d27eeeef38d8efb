"""Rules of reductions, and of what finds the largest."""

from __future__ import annotations

import operator

import torch
from torch import fx

from . import onnx_functions as functions
from .operator_table import Call, Refused, converts

REDUCTIONS = {
    "ReduceL1": "l1",
    "ReduceL2": "l2",
    "ReduceLogSumExp": "log_sum_exp",
    "ReduceMax": "max",
    "ReduceMean": "mean",
    "ReduceMin": "min",
    "ReduceProd": "prod",
    "ReduceSum": "sum",
    "ReduceSumSquare": "sum_square",
}


@converts(*REDUCTIONS)
def reduce(call: Call) -> fx.Node:
    axes = call.integers_of("axes", 1) or None
    if axes is None and call.attribute("noop_with_empty_axes", 0):
        axes = []
    keep = bool(call.attribute("keepdims", 1))
    return call.emit(functions.reduced, call.tensor(0), REDUCTIONS[call.op], axes, keep)


@converts("ArgMax", "ArgMin")
def arg_extreme(call: Call) -> fx.Node:
    call.refuse_attribute("select_last_index", 0)
    function = torch.argmax if call.op == "ArgMax" else torch.argmin
    keep = bool(call.attribute("keepdims", 1))
    return call.emit(function, call.tensor(0), call.attribute("axis", 0), keep)


@converts("TopK")
def top_k(call: Call) -> tuple[fx.Node, ...]:
    count = call.public(1, "k")
    options = {"largest": bool(call.attribute("largest", 1)), "sorted": True}
    [number] = count if isinstance(count, list) else [count]
    found = call.emit(torch.topk, call.tensor(0), number, call.attribute("axis", -1), **options)
    return tuple(call.emit(operator.getitem, found, i) for i in range(2))


@converts("CumSum")
def cumulative_sum(call: Call) -> fx.Node:
    axis = call.public(1, "an axis")
    if isinstance(axis, list):
        [axis] = axis
    exclusive, reverse = (bool(call.attribute(name, 0)) for name in ("exclusive", "reverse"))
    if not isinstance(axis, int):
        raise Refused("an axis that is no integer")
    return call.emit(functions.cumulated, call.tensor(0), axis, exclusive, reverse)
