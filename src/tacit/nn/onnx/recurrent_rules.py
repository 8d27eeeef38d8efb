"""Rules of LSTM, GRU and RNN, as torch's layers: one layer, one or both directions."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, fx, nn

from . import onnx_functions as functions
from .operator_table import Call, Refused, converts

# Which gates of ONNX are those of torch, in torch's order: i f g o of i o f c; r z n of z r h.
GATES = {"LSTM": (0, 2, 3, 1), "GRU": (1, 0, 2), "RNN": (0,)}
ACTIVATIONS = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"], "RNN": ["Tanh"]}
STATES = {"LSTM": 2, "GRU": 1, "RNN": 1}


@converts("LSTM", "GRU", "RNN")
def recurrent(call: Call) -> tuple[fx.Node, ...]:
    """Steps x batch x inputs give steps x directions x batch x hidden, and the last states."""
    _refuse(call)
    reverse = call.attribute("direction", "forward") == "reverse"
    x = call.tensor(0)
    x = call.emit(torch.flip, x, [0]) if reverse else x
    states = [call.tensor(5 + i) for i in range(STATES[call.op]) if call.has(5 + i)]
    if states and len(states) < STATES[call.op]:
        raise Refused("one of two initial states")
    layer = _layer(call)
    given = states if len(states) < 2 else [tuple(states)]
    found = call.layer(layer, x, *given)
    rows, last = (call.emit(operator.getitem, found, i) for i in range(2))
    rows = call.emit(torch.flip, rows, [0]) if reverse else rows
    rows = call.emit(functions.by_direction, rows, 2 if layer.bidirectional else 1)
    if call.op != "LSTM":
        return rows, last
    return (rows, *(call.emit(operator.getitem, last, i) for i in range(2)))


def _refuse(call: Call) -> None:
    count = 2 if call.attribute("direction", "forward") == "bidirectional" else 1
    wanted = ACTIVATIONS[call.op] * count
    names = call.attribute("activations", None)
    if names is not None and [name.decode() for name in names] != wanted:
        raise Refused("other activations than its default")
    for name in ("clip", "layout", "input_forget"):
        call.refuse_attribute(name, 0)
    if call.op == "GRU":
        call.refuse_attribute("linear_before_reset", 0, 1)
        if not call.attribute("linear_before_reset", 0):
            raise Refused("linear_before_reset=0, which torch does not have")
    if call.has(4):
        raise Refused("sequence_lens")
    if call.has(7):
        raise Refused("peepholes")


def _layer(call: Call) -> nn.RNNBase:
    weights, recurrences = call.weight(1, "weights"), call.weight(2, "weights")
    directions, hidden = recurrences.shape[0], recurrences.shape[2]
    kind: Any = {"LSTM": nn.LSTM, "GRU": nn.GRU, "RNN": nn.RNN}[call.op]
    layer: nn.RNNBase = kind(
        weights.shape[2], hidden, bias=call.has(3), bidirectional=directions == 2
    )
    biases = call.weight(3, "biases") if call.has(3) else None
    for direction in range(directions):
        end = "_l0_reverse" if direction else "_l0"
        _set(layer, f"weight_ih{end}", weights[direction], call.op)
        _set(layer, f"weight_hh{end}", recurrences[direction], call.op)
        if biases is not None:
            first, second = biases[direction].chunk(2)
            _set(layer, f"bias_ih{end}", first, call.op)
            _set(layer, f"bias_hh{end}", second, call.op)
    return layer


def _set(layer: nn.RNNBase, name: str, tensor: Tensor, op: str) -> None:
    order: Sequence[int] = GATES[op]
    parts = tensor.detach().chunk(len(order))
    setattr(layer, name, nn.Parameter(torch.cat([parts[i] for i in order])))
