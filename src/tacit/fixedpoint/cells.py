"""One step of recurrent cells, without gradients, in few rounds.

All take any leading dimensions, so that cells of several layers and directions share their rounds.
Gates are sums of matrix products, whose division may be pending. Rounds of the states, by a dealer
and exact truncation, for few elements (see `bounded_curve`), the matrix products excluded:
an LSTM cell 5, or 6 if its cell state has no known bound below 16; a GRU cell 6; a tanh cell 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..protocols import MUL, Arith
from ..protocols.steps import Interactive, Steps, together
from .format import Format, cap
from .functions.activations import CURVES
from .functions.share_functions import bounded
from .functions.sine_series import bounded_curve
from .value import Value

SIGMOID, TANH = CURVES["sigmoid"], CURVES["tanh"]


def lstm_cell(n: Format, gates: Value, cell: Value) -> tuple[Value, Value]:
    """Returns o tanh(c') and c' = f c + i g for the gates (i, f, g, o) before sigmoid and tanh."""
    state, new = _run(n, _lstm_cell, [gates, cell], 2)
    return state, new


def gru_cell(n: Format, gates: Value, inner: Value, from_state: Value, state: Value) -> Value:
    """Returns h' = (1 - z) tanh(inner + r from_state) + z h for the gates (r, z) before sigmoid.

    inner: what the input adds to the new gate; from_state: what r is multiplied by.
    """
    [state] = _run(n, _gru_cell, [gates, inner, from_state, state], 1)
    return state


def tanh_cell(n: Format, gates: Value) -> Value:
    """Returns tanh(gates)."""
    [state] = _run(n, _tanh_cell, [gates], 1)
    return state


def _run(n: Format, body: Any, values: Sequence[Value], count: int) -> list[Value]:
    """Returns the results of the steps body(n, ...) on shares, as values of one dtype."""

    def steps(p: object, *shares: Arith) -> Steps[tuple[Arith, ...]]:
        return (yield from body(n, *shares))

    steps.__name__, steps.__doc__ = body.__name__, body.__doc__
    operation: Any = Interactive(steps, *[Arith] * count)
    made = operation.__get__(n.protocol)(*[cap(n, x.arith) for x in values])
    return [Value(share, values[0].dtype) for share in made]


def _lstm_cell(n: Format, gates: Arith, cell: Arith) -> Steps[tuple[Arith, ...]]:
    p, f, size = n.protocol, n.fraction_bits, gates.shape[-1] // 4
    i_f_o = gates.map(lambda part: torch.cat([part[..., : 2 * size], part[..., 3 * size :]], -1))
    active, g, cell = yield from together(
        _active(n, i_f_o, SIGMOID),
        _active(n, gates.narrow(-1, 2 * size, size), TANH),
        p.settled.steps(cell),
    )
    i, forget, o = _split(active, size)
    kept, added = yield from together(
        p.bilinear.steps(MUL, forget, cell, shift=f), p.bilinear.steps(MUL, i, g, shift=f)
    )
    cell = cap(n, p.add(kept, added))
    state, cell = yield from together(_times_tanh(n, o, cell), p.settled.steps(cell))
    return bounded(n, (yield from p.settled.steps(state)), 1.0), cell


def _gru_cell(
    n: Format, gates: Arith, inner: Arith, from_state: Arith, state: Arith
) -> Steps[tuple[Arith, ...]]:
    p, f = n.protocol, n.fraction_bits
    active, from_state, state = yield from together(
        _active(n, gates, SIGMOID), p.settled.steps(from_state), p.settled.steps(state)
    )
    r, z = _split(active, gates.shape[-1] // 2)
    added, kept = yield from together(
        p.bilinear.steps(MUL, r, from_state, shift=f), p.bilinear.steps(MUL, z, state, shift=f)
    )
    rest = p.add_public(p.neg(z), 1 << f).promise(z.limit)
    new = yield from _times_tanh(n, rest, cap(n, p.add(inner, added)))
    limit = max(1 << f, state.limit) + (1 << (f - 7))  # an average of the old state and a tanh
    return ((yield from p.settled.steps(p.add(new, kept))).promise(limit),)


def _tanh_cell(n: Format, gates: Arith) -> Steps[tuple[Arith, ...]]:
    return ((yield from _active(n, gates, TANH)),)


def _active(n: Format, x: Arith, curve: Any) -> Steps[Arith]:
    """Returns the curve at x, with nothing pending."""
    value = yield from bounded_curve(n, x, curve)
    return bounded(n, (yield from n.protocol.settled.steps(value)), 1.0)


def _times_tanh(n: Format, factor: Arith, x: Arith) -> Steps[Arith]:
    """Returns factor tanh(x), where 0 <= factor <= 1. Its division is pending."""
    product = yield from bounded_curve(n, x, TANH, factor=factor)
    return bounded(n, product.divided(n.fraction_bits), 1.0)


def _split(x: Arith, size: int) -> list[Arith]:
    return [x.narrow(-1, start, size) for start in range(0, x.shape[-1], size)]
