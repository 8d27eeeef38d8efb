"""Recurrent layers that arrive as one operation. torch computes the others cell by cell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ....errors import UnsupportedOp
from ....fixedpoint import CellWeights, Kind, LstmTrace, LstmWeights, Numbers, Value
from ...operand import Array, mapped
from ...table import implements

aten = torch.ops.aten

LSTM = 2  # torch's number for the kind of layer

# Stacked layers or one cell, as one operation (recurrent_functions.py); torch has none.
_library = torch.library.Library("tacit", "DEF")
_library.define(
    "recurrent(Tensor input, Tensor[] hx, Tensor[] params, str kind, bool has_biases, "
    "bool bidirectional, bool batch_first) -> Tensor[]"
)
_library.impl("recurrent", torch.library.fallthrough_kernel, "AutogradPrivateUse3")
RECURRENT = torch.ops.tacit.recurrent.default


@implements(RECURRENT)
def recurrent(
    n: Numbers,
    input: Array,
    hx: Sequence[Array],
    params: Sequence[Array],
    kind: Kind,
    has_biases: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Value, ...]:
    """The outputs, and the last states of all layers and directions; without gradients."""
    directions, chains = 2 if bidirectional else 1, hx[0].shape[0]
    each = len(params) // chains
    weights = [_cell_weights(params[i : i + each], has_biases) for i in range(0, len(params), each)]
    x = mapped(input, lambda part: part.transpose(0, 1)) if batch_first else input
    outputs, states = n.recurrent(kind, x, hx, weights, directions)
    if batch_first:
        outputs = outputs.map(lambda part: part.transpose(0, 1))
    return outputs, *states


def _cell_weights(params: Sequence[Array], has_biases: bool) -> CellWeights:
    """The weights of a cell in torch's order: input, state, biases, projection."""
    first, second = params[2:4] if has_biases else (None, None)
    rest = params[4:] if has_biases else params[2:]
    return CellWeights(params[0], params[1], first, second, rest[0] if rest else None)


@implements(aten.mkldnn_rnn_layer.default)
def mkldnn_rnn_layer(
    n: Numbers,
    input: Array,
    weight0: Array,
    weight1: Array,
    weight2: Array,
    weight3: Array,
    hx_: Array,
    cx_: Array,
    reverse: bool,
    batch_sizes: Sequence[int],
    mode: int,
    hidden_size: int,
    num_layers: int,
    has_biases: bool,
    bidirectional: bool,
    batch_first: bool,
    train: bool,
) -> tuple[Value, ...]:
    """The states, the last state and cell, and a workspace: the cell, with the trace beside it."""
    if mode != LSTM or batch_sizes:
        raise UnsupportedOp(
            "a fused recurrent layer on secrets", limit="only LSTM of sequences of one length"
        )
    x = _in_order(n.operand(input), reverse)
    weights = LstmWeights(weight0, weight1, _bias(n, weight2, weight3, has_biases))
    states, h, c, trace = n.lstm(x, weights, _flat(n, hx_), _flat(n, cx_))
    gates = {f"gate {i}": gate for i, gate in enumerate(trace.gates)}
    saved = {"cells": trace.cells, "states": trace.states, "tanh_cells": trace.tanh_cells, **gates}
    workspace = c.with_saved(**saved)
    shape = tuple(hx_.shape)
    last = (part.map(lambda p: p.reshape(shape)) for part in (h, c))
    return _in_order(states, reverse), *last, workspace


@implements(aten.mkldnn_rnn_layer_backward.default)
def mkldnn_rnn_layer_backward(
    n: Numbers,
    input: Array,
    weight1: Array,
    weight2: Array,
    weight3: Array,
    weight4: Array,
    hx_: Array,
    cx_tmp: Array,
    output: Array,
    hy_: Array,
    cy_: Array,
    grad_output: Array | None,
    grad_hy: Array | None,
    grad_cy: Array | None,
    reverse: bool,
    mode: int,
    hidden_size: int,
    num_layers: int,
    has_biases: bool,
    train: bool,
    bidirectional: bool,
    batch_sizes: Sequence[int],
    batch_first: bool,
    workspace: Value,
) -> tuple[Value, ...]:
    """The gradients by input, weights, biases and first states, from the saved trace."""
    saved = workspace.saved
    gates = [saved[f"gate {i}"] for i in range(4)]
    trace = LstmTrace(gates, saved["cells"], saved["states"], saved["tanh_cells"])
    x = _in_order(n.operand(input), reverse)
    given = None if grad_output is None else n.operand(grad_output)
    by_states = None if given is None else _in_order(given, reverse)
    last = [None if g is None else _flat(n, g) for g in (grad_hy, grad_cy)]
    grads = n.lstm_backward(x, LstmWeights(weight1, weight2, None), trace, by_states, *last)
    shape = tuple(hx_.shape)
    first = (part.map(lambda p: p.reshape(shape)) for part in (grads.state, grads.cell))
    by_input = _in_order(grads.input, reverse)
    return by_input, grads.weight_input, grads.weight_state, grads.bias, grads.bias, *first


def _in_order(x: Value, reverse: bool) -> Value:
    """A sequence in the order in which the layer reads it; its first dimension is time."""
    return x.map(lambda part: part.flip(0)) if reverse else x


def _flat(n: Numbers, x: Array) -> Value:
    size = x.shape[-1]
    return n.operand(x).map(lambda part: part.reshape(-1, size))


def _bias(n: Numbers, first: Array, second: Array, has_biases: bool) -> Any:
    if not has_biases:
        return None
    if isinstance(first, Tensor) and isinstance(second, Tensor):
        return first + second
    return n.add(first, second)


@implements(aten._pack_padded_sequence.default)
def pack_padded_sequence(
    n: Numbers, input: Value, lengths: Tensor | Value, batch_first: bool
) -> tuple[Value, Tensor]:
    """The packed steps of sequences with public lengths, and the sizes of the batches.

    There is no gradient and no unpacking: torch's write to public tensors, which is refused.
    """
    if isinstance(lengths, Value):
        raise UnsupportedOp(
            "_pack_padded_sequence with secret lengths",
            limit="the sizes of the batches would reveal them",
            remedy="keep the padding, or reveal the lengths",
        )
    places, sizes = _packed_places(input.shape[:2], lengths, batch_first)
    return input.map(lambda part: part.flatten(0, 1)[places]), sizes


def _packed_places(
    shape: Sequence[int], lengths: Tensor, batch_first: bool
) -> tuple[Tensor, Tensor]:
    """The indices of the packed steps in the flattened input, and the sizes of the batches.

    They come from torch, which packs a tensor of indices.
    """
    numbers = torch.arange(shape[0] * shape[1], dtype=torch.float64).view(*shape, 1)
    places, sizes = aten._pack_padded_sequence(numbers, lengths, batch_first)
    return places.flatten().to(torch.int64), sizes
