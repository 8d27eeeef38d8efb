"""Stacked recurrent layers, without gradients: all cells whose inputs are known run at once.

A cell belongs to a layer, a direction and a step. Layer l of one direction is l steps behind the
first, so T steps of L layers take the rounds of T + L - 1 cells. Both directions of a layer run
side by side; the next layer needs the last steps of both, so L layers take those of L T cells.
Sequences have the shape (T, B, ...).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from ..protocols import MATMUL
from .arithmetic import Call, add, bilinear, bilinears
from .cells import gru_cell, lstm_cell, tanh_cell
from .format import Format
from .sequences import narrowed, stacked, step_of, transposed
from .value import Value, combined, operand, settled

Kind = Literal["lstm", "gru", "rnn_tanh"]
Array = Value | Tensor


@dataclass(frozen=True)
class CellWeights:
    """The weights of input and state, (gates H, I) and (gates H, H), and their biases.

    projection: an LSTM's (P, H), which makes its state smaller than its cell.
    """

    input: Array
    state: Array
    bias_input: Array | None = None
    bias_state: Array | None = None
    projection: Array | None = None


@dataclass(eq=False)
class Chain:
    """The cells of one layer and direction. places: the steps in the order in which it reads them.

    state: (h,) or (h, c). inputs: what the input adds to the gates, by place. outputs: by place.
    """

    weights: CellWeights
    places: Sequence[int]
    below: list[Chain]
    state: list[Array]
    inputs: dict[int, Value] = field(default_factory=dict)
    outputs: dict[int, Value] = field(default_factory=dict)

    @property
    def next(self) -> int:
        """The place of the next cell."""
        return self.places[len(self.outputs)]

    def is_ready(self) -> bool:
        """Whether there is a next cell, and its input is known."""
        if len(self.outputs) == len(self.places):
            return False
        return all(self.next in chain.outputs for chain in self.below)


def recurrent(
    n: Format,
    kind: Kind,
    x: Array,
    states: Sequence[Array],
    weights: Sequence[CellWeights],
    directions: int,
) -> tuple[Value, list[Value]]:
    """Returns the outputs of the last layer, and the last states of all chains, as torch does.

    states: those of each kind, of the shape (layers directions, B, H). weights: of all chains, the
    directions of a layer one after the other.
    """
    chains = _chains(x.shape[0], states, weights, directions)
    while ready := [chain for chain in chains if chain.is_ready()]:
        _step(n, kind, ready, x)
    last = chains[-directions:]
    outputs = [_joined(n, [chain.outputs[t] for chain in last]) for t in range(len(last[0].places))]
    ends = [stacked(n, [chain.state[i] for chain in chains]) for i in range(len(states))]
    return stacked(n, outputs), ends


def _chains(
    steps: int, states: Sequence[Array], weights: Sequence[CellWeights], directions: int
) -> list[Chain]:
    chains: list[Chain] = []
    for i, one in enumerate(weights):
        layer, direction = divmod(i, directions)
        below = chains[(layer - 1) * directions : layer * directions] if layer else []
        places = range(steps - 1, -1, -1) if direction else range(steps)
        chains.append(Chain(one, places, below, [_at(state, i) for state in states]))
    return chains


def _step(n: Format, kind: Kind, ready: Sequence[Chain], x: Array) -> None:
    """Runs the next cell of every chain that is ready, all in the same rounds."""
    from_state = _gate_inputs(n, ready, x)
    places = [chain.next for chain in ready]
    from_input = [chain.inputs[place] for chain, place in zip(ready, places, strict=True)]
    states = [stacked(n, list(column)) for column in zip(*(c.state for c in ready), strict=True)]
    made = _cells(n, kind, from_input, from_state, states)
    rows = [[_at(state, i) for state in made] for i in range(len(ready))]
    for chain, row in zip(ready, rows, strict=True):
        chain.state = list(row)
    projected = [chain for chain in ready if chain.weights.projection is not None]
    calls: list[Call] = [
        (MATMUL, chain.state[0], transposed(chain.weights.projection)) for chain in projected
    ]
    for chain, state in zip(projected, _products(n, calls), strict=True):
        chain.state[0] = settled(n, state)
    for chain, place in zip(ready, places, strict=True):
        chain.outputs[place] = operand(n, chain.state[0])


def _gate_inputs(n: Format, ready: Sequence[Chain], x: Array) -> list[Array]:
    """Returns what the states add to the gates, and notes what the known inputs do. 1 round."""
    calls: list[Call] = []
    waiting = [chain for chain in ready if chain.next not in chain.inputs]
    known = [_known_places(chain) for chain in waiting]
    for chain, places in zip(waiting, known, strict=True):
        inputs = _stacked_inputs(n, chain, places) if chain.below else _picked(x, places)
        calls.append((MATMUL, inputs, transposed(chain.weights.input)))
    moving = [chain for chain in ready if not _is_zero(chain.state[0])]
    calls += [(MATMUL, chain.state[0], transposed(chain.weights.state)) for chain in moving]
    made = _products(n, calls)
    for chain, places, product in zip(waiting, known, made, strict=False):
        total = operand(n, _plus(n, product, chain.weights.bias_input))
        chain.inputs.update((place, step_of(total, i)) for i, place in enumerate(places))
    left = iter(made[len(waiting) :])
    products = [next(left) if chain in moving else _zeros(chain) for chain in ready]
    return [_plus(n, x, chain.weights.bias_state) for x, chain in zip(products, ready, strict=True)]


def _cells(
    n: Format,
    kind: Kind,
    from_input: Sequence[Value],
    from_state: Sequence[Array],
    states: Sequence[Value],
) -> tuple[Value, ...]:
    """Returns the new states of the stacked cells."""
    if kind == "gru":
        inputs, others = stacked(n, from_input), stacked(n, from_state)
        size = states[0].shape[-1]
        gates = add(n, narrowed(inputs, 0, 2 * size), narrowed(others, 0, 2 * size))
        inner, recurrent = (narrowed(part, 2 * size, size) for part in (inputs, others))
        return (gru_cell(n, gates, inner, recurrent, states[0]),)
    gates = stacked(n, [add(n, a, b) for a, b in zip(from_input, from_state, strict=True)])
    return lstm_cell(n, gates, states[1]) if kind == "lstm" else (tanh_cell(n, gates),)


def _products(n: Format, calls: Sequence[Call]) -> list[Value]:
    """Returns the products; those of two secrets in one round."""
    secret = [all(isinstance(x, Value) for x in call[1:]) for call in calls]
    chosen = [call for call, both in zip(calls, secret, strict=True) if both]
    made = iter(bilinears(n, chosen) if chosen else [])
    return [
        next(made) if both else bilinear(n, *call) for call, both in zip(calls, secret, strict=True)
    ]


def _known_places(chain: Chain) -> list[int]:
    """The places whose input is known and not yet multiplied."""
    return [
        place
        for place in chain.places
        if place not in chain.inputs and all(place in below.outputs for below in chain.below)
    ]


def _stacked_inputs(n: Format, chain: Chain, places: Sequence[int]) -> Value:
    return stacked(n, [_joined(n, [one.outputs[t] for one in chain.below]) for t in places])


def _picked(x: Array, places: Sequence[int]) -> Array:
    """The steps of a sequence, in this order."""
    chosen = list(places)
    return x.map(lambda part: part[chosen]) if isinstance(x, Value) else x[chosen]


def _is_zero(state: Array) -> bool:
    """Whether a state is public and zero, as torch makes the first one."""
    return isinstance(state, Tensor) and not state.any()


def _zeros(chain: Chain) -> Tensor:
    state, weight = chain.state[0], chain.weights.state
    assert isinstance(state, Tensor)
    return state.new_zeros(*state.shape[:-1], weight.shape[0])


def _plus(n: Format, x: Array, bias: Array | None) -> Array:
    if bias is None:
        return x
    if isinstance(x, Value) or isinstance(bias, Value):
        return add(n, x, bias)
    return x + bias


def _at(x: Array, i: int) -> Array:
    return step_of(x, i) if isinstance(x, Value) else x[i]


def _joined(n: Format, values: Sequence[Array]) -> Value:
    if len(values) == 1:
        return operand(n, values[0])
    return combined(n, list(values), lambda parts: torch.cat(parts, -1))
