"""A layer of long short-term memory (LSTM) over a sequence, and its gradients.

Sequences have the shape (T, B, ...). The gates are in torch's order: input i, forget f, cell g,
output o. A step is c = f c + i g, h = o tanh(c).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ..protocols import MATMUL, MUL
from .arithmetic import add, bilinears, matmul, mul, sub
from .format import Format
from .functions.activations import sigmoid, tanh
from .reduce import total
from .sequences import narrowed, stacked, step_of, transposed
from .value import Operand, Value, combined, operand, public, settled


@dataclass(frozen=True)
class LstmWeights:
    """The weights of input and state, (4 H, I) and (4 H, H), and the sum of both biases."""

    input: Operand
    state: Operand
    bias: Operand | None


@dataclass(frozen=True)
class LstmTrace:
    """What the gradients need of all steps; each tensor has the shape (T, B, H)."""

    gates: list[Value]
    cells: Value  # before each step
    states: Value  # before each step
    tanh_cells: Value  # tanh of the cells after each step


def lstm(
    n: Format, x: Value, weights: LstmWeights, state: Operand, cell: Operand
) -> tuple[Value, Value, Value, LstmTrace]:
    """Returns the states after every step, the last state and cell, and the trace.

    A step takes the rounds of a matrix product, a sigmoid, a product, a tanh and a product.
    """
    from_input = matmul(n, x, transposed(weights.input))
    from_input = from_input if weights.bias is None else add(n, from_input, weights.bias)
    state_weight = transposed(weights.state)
    h, c = operand(n, state), operand(n, cell)
    steps: list[list[Value]] = []
    states, cells, tanh_cells = [h], [c], []
    for t in range(x.shape[0]):
        gates = _gates(n, add(n, step_of(from_input, t), matmul(n, h, state_weight)))
        remembered, new = bilinears(n, [(MUL, gates[1], c), (MUL, gates[0], gates[2])])
        c = settled(n, add(n, remembered, new))
        tanh_cells.append(settled(n, tanh(n, c)))
        h = settled(n, mul(n, gates[3], tanh_cells[-1]))
        steps.append(gates)
        states.append(h)
        cells.append(c)
    trace = LstmTrace(
        [stacked(n, [step[i] for step in steps]) for i in range(4)],
        stacked(n, cells[:-1]),
        stacked(n, states[:-1]),
        stacked(n, tanh_cells),
    )
    return stacked(n, states[1:]), h, c, trace


def _gates(n: Format, x: Value) -> list[Value]:
    """Returns the four gates of one step in the rounds of one sigmoid.

    The cell gate is tanh(x) = 2 sigmoid(2 x) - 1.
    """
    size = x.shape[-1] // 4
    twice = torch.ones(4 * size, dtype=torch.int64)
    twice[2 * size : 3 * size] = 2
    active = settled(n, sigmoid(n, mul(n, x, twice)))
    parts = [narrowed(active, i * size, size) for i in range(4)]
    parts[2] = sub(n, mul(n, parts[2], 2), 1.0)
    return parts


@dataclass(frozen=True)
class LstmGrads:
    """The gradients by input, both weights, either bias, and the first state and cell."""

    input: Value
    weight_input: Value
    weight_state: Value
    bias: Value
    state: Value
    cell: Value


def lstm_backward(
    n: Format,
    x: Value,
    weights: LstmWeights,
    trace: LstmTrace,
    by_states: Operand | None,
    by_state: Operand | None,
    by_cell: Operand | None,
) -> LstmGrads:
    """Returns the gradients of `lstm` from those by its states, its last state and its last cell.

    A step takes three products. Factors that depend on the trace alone are computed for all steps
    at once.
    """
    factors, carry = _factors(n, trace)
    steps, shape = trace.cells.shape[0], trace.cells.shape[1:]
    zero = public(n, torch.zeros(shape, dtype=trace.cells.dtype))
    dh = zero if by_state is None else operand(n, by_state)
    dc = zero if by_cell is None else operand(n, by_cell)
    outer = None if by_states is None else operand(n, by_states)
    by_gates: list[Value] = []
    size = shape[-1]
    for t in reversed(range(steps)):
        dh = settled(n, dh if outer is None else add(n, dh, step_of(outer, t)))
        dc = settled(n, add(n, dc, mul(n, dh, step_of(carry, t))))
        both = combined(n, [dc, dc, dc, dh, dc], lambda parts: torch.cat(parts, -1))
        product = settled(n, mul(n, both, step_of(factors, t)))
        gates, dc = narrowed(product, 0, 4 * size), narrowed(product, 4 * size, size)
        dh = matmul(n, gates, weights.state)
        by_gates.insert(0, gates)
    return _shared_grads(n, x, weights, trace, stacked(n, by_gates), dh, dc)


def _factors(n: Format, trace: LstmTrace) -> tuple[Value, Value]:
    """Returns the factors of the gradients of all steps.

    First, joined along the last dimension, the factors of (dc, dc, dc, dh, dc) that give the
    gradients by the gates i, f, g, o before their sigmoid or tanh, and by the previous cell. Second
    the factor o (1 - tanh(c)^2) of dh that adds to dc.
    """
    i, f, g, o = trace.gates
    squared = [i, f, g, o, trace.tanh_cells]
    si, sf, sg, so, sq = (settled(n, s) for s in bilinears(n, [(MUL, x, x) for x in squared]))
    slopes = [sub(n, i, si), sub(n, f, sf), sub(n, 1.0, sg), sub(n, o, so), sub(n, 1.0, sq)]
    others = [g, trace.cells, i, trace.tanh_cells, o]
    *four, carry = bilinears(n, [(MUL, a, b) for a, b in zip(slopes, others, strict=True)])
    joined = combined(n, [*four, f], lambda parts: torch.cat(parts, -1))
    return settled(n, joined), settled(n, carry)


def _shared_grads(
    n: Format, x: Value, weights: LstmWeights, trace: LstmTrace, gates: Value, dh: Value, dc: Value
) -> LstmGrads:
    """Returns the gradients by what all steps share: the input, the weights and the bias."""
    rows = gates.map(lambda part: part.flatten(0, 1))
    columns = transposed(rows)
    inputs, states = (y.map(lambda part: part.flatten(0, 1)) for y in (x, trace.states))
    by_input = matmul(n, gates, weights.input)
    by_weight, by_state = bilinears(n, [(MATMUL, columns, inputs), (MATMUL, columns, states)])
    return LstmGrads(by_input, by_weight, by_state, total(n, rows, [0]), dh, dc)
