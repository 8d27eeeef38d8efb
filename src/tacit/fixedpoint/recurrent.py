"""A layer of long short-term memory over a sequence, and its gradients.

Sequences have the shape (T, B, ...); gates stand in the order input, forget, cell, output.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..protocols import MATMUL, MUL
from .arithmetic import add, mul, sub
from .conversion import combined, operand, public, settled
from .format import Format
from .functions.sigmoids import sigmoid, tanh
from .linear import bilinears, matmul
from .reduce import total
from .value import Operand, Value


@dataclass(frozen=True)
class Weights:
    """Of the input and of the state, (4 H, I) and (4 H, H), and the sum of the biases."""

    input: Operand
    state: Operand
    bias: Operand | None


@dataclass(frozen=True)
class Trace:
    """What the gradients need of every step, each of shape (T, B, H)."""

    gates: list[Value]
    cells: Value  # before each step
    states: Value  # before each step
    squashed: Value  # tanh of the cells after each step


def lstm(
    n: Format, x: Value, weights: Weights, state: Operand, cell: Operand
) -> tuple[Value, Value, Value, Trace]:
    """The states after every step, the last state and cell, and the trace.

    A step takes the rounds of two products, a choice of functions and a product.
    """
    entering = matmul(n, x, _turned(weights.input))
    entering = entering if weights.bias is None else add(n, entering, weights.bias)
    leaving = _turned(weights.state)
    h, c = operand(n, state), operand(n, cell)
    steps: list[list[Value]] = []
    states, cells, squashed = [h], [c], []
    for t in range(x.shape[0]):
        gates = _gates(n, add(n, _at(entering, t), matmul(n, h, leaving)))
        kept, new = bilinears(n, [(MUL, gates[1], c), (MUL, gates[0], gates[2])])
        c = settled(n, add(n, kept, new))
        squashed.append(settled(n, tanh(n, c)))
        h = settled(n, mul(n, gates[3], squashed[-1]))
        steps.append(gates)
        states.append(h)
        cells.append(c)
    trace = Trace(
        [_stacked(n, [step[i] for step in steps]) for i in range(4)],
        _stacked(n, cells[:-1]),
        _stacked(n, states[:-1]),
        _stacked(n, squashed),
    )
    return _stacked(n, states[1:]), h, c, trace


def _gates(n: Format, x: Value) -> list[Value]:
    """The four gates of one step, in the rounds of one function: tanh(x) = 2 sigmoid(2 x) - 1."""
    size = x.shape[-1] // 4
    twice = torch.ones(4 * size, dtype=torch.int64)
    twice[2 * size : 3 * size] = 2
    active = settled(n, sigmoid(n, mul(n, x, twice)))
    parts = [_narrow(active, i * size, size) for i in range(4)]
    parts[2] = sub(n, mul(n, parts[2], 2), 1.0)
    return parts


@dataclass(frozen=True)
class Grads:
    """By input, the two weights, the bias (either of both), and the first state and cell."""

    input: Value
    weight_input: Value
    weight_state: Value
    bias: Value
    state: Value
    cell: Value


def lstm_backward(
    n: Format,
    x: Value,
    weights: Weights,
    trace: Trace,
    by_states: Operand | None,
    by_state: Operand | None,
    by_cell: Operand | None,
) -> Grads:
    """The gradients of `lstm` from those by its states, its last state and its last cell.

    A step takes three products: what depends on the trace alone is computed for all steps at once.
    """
    factors, carry = _factors(n, trace)
    steps, shape = trace.cells.shape[0], trace.cells.shape[1:]
    zero = public(n, torch.zeros(shape, dtype=trace.cells.dtype))
    dh = zero if by_state is None else operand(n, by_state)
    dc = zero if by_cell is None else operand(n, by_cell)
    outer = None if by_states is None else operand(n, by_states)
    made: list[Value] = []
    size = shape[-1]
    for t in reversed(range(steps)):
        dh = settled(n, dh if outer is None else add(n, dh, _at(outer, t)))
        dc = settled(n, add(n, dc, mul(n, dh, _at(carry, t))))
        both = combined(n, [dc, dc, dc, dh, dc], lambda parts: torch.cat(parts, -1))
        product = settled(n, mul(n, both, _at(factors, t)))
        gates, dc = _narrow(product, 0, 4 * size), _narrow(product, 4 * size, size)
        dh = matmul(n, gates, weights.state)
        made.insert(0, gates)
    return _gathered(n, x, weights, trace, _stacked(n, made), dh, dc)


def _factors(n: Format, trace: Trace) -> tuple[Value, Value]:
    """What the gradient of the cell is multiplied by for each gate, and for the cell before.

    The fourth, for the output's gate, multiplies that of the state. And by what the gradient of a
    state reaches its cell.
    """
    i, f, g, o = trace.gates
    squared = [i, f, g, o, trace.squashed]
    si, sf, sg, so, sq = (settled(n, s) for s in bilinears(n, [(MUL, x, x) for x in squared]))
    slopes = [sub(n, i, si), sub(n, f, sf), sub(n, 1.0, sg), sub(n, o, so), sub(n, 1.0, sq)]
    others = [g, trace.cells, i, trace.squashed, o]
    *four, carry = bilinears(n, [(MUL, a, b) for a, b in zip(slopes, others, strict=True)])
    joined = combined(n, [*four, f], lambda parts: torch.cat(parts, -1))
    return settled(n, joined), settled(n, carry)


def _gathered(
    n: Format, x: Value, weights: Weights, trace: Trace, gates: Value, dh: Value, dc: Value
) -> Grads:
    """The gradients by what all steps share."""
    rows = gates.map(lambda part: part.flatten(0, 1))
    columns = _turned_value(rows)
    inputs, states = (y.map(lambda part: part.flatten(0, 1)) for y in (x, trace.states))
    by_input = matmul(n, gates, weights.input)
    by_weight, by_state = bilinears(n, [(MATMUL, columns, inputs), (MATMUL, columns, states)])
    return Grads(by_input, by_weight, by_state, total(n, rows, [0]), dh, dc)


def _turned(x: Operand) -> Operand:
    if isinstance(x, Value):
        return _turned_value(x)
    assert isinstance(x, Tensor)
    return x.transpose(-1, -2)


def _turned_value(x: Value) -> Value:
    return x.map(lambda part: part.transpose(-1, -2))


def _at(x: Value, t: int) -> Value:
    return x.map(lambda part: part[t])


def _narrow(x: Value, start: int, length: int) -> Value:
    return x.map(lambda part: part.narrow(-1, start, length))


def _stacked(n: Format, values: Sequence[Value]) -> Value:
    return combined(n, list(values), torch.stack)
