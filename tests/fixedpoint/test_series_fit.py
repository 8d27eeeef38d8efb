"""Series of activations: how close they are, how long, and what a call of GELU sends."""

from __future__ import annotations

from math import pi

import pytest
import torch

import tacit
from tacit.fixedpoint.functions.activations import CURVES
from tacit.fixedpoint.functions.series_fit import COARSE_GAP, FINE_GAP, Curve, series
from tacit.protocols.cost import Cost, in_turn

# The cosines or sines with which Fourier's coefficients alone are as close, with 16 fraction bits.
FOURIER = {"gelu": 8, "gelu_tanh": 9, "sigmoid": 11, "tanh": 11, "gelu_slope": 16}


@pytest.mark.parametrize("bits", [16, 20])
@pytest.mark.parametrize("name", CURVES)
def test_close_to_the_curve_and_beyond_the_ends(name, bits):
    """Within a quarter unit or an eighth of the gap to the lines; in the margin within the gap."""
    curve = CURVES[name]
    made = series(curve, bits)
    reach = 2.0**made.reach_bits
    x = torch.linspace(-1 - 2**-6, 1 + 2**-6, 20001, dtype=torch.float64) * reach
    phase = pi * x / (2 * reach)
    found = made.twice_slope * x / 2 + made.offset
    for i, c in enumerate(made.odd):
        found += c * torch.sin((2 * i + 1) * phase)
    for i, c in enumerate(made.even):
        found += c * torch.cos((2 * i + 1) * phase)
    distance = (found - curve.function(x)).abs()
    gap = COARSE_GAP if bits <= 16 else FINE_GAP
    assert distance[x.abs() <= reach].max() <= max(2.0 ** -(bits + 1), gap / 8)
    assert distance.max() <= gap / 2


@pytest.mark.parametrize("name", CURVES)
def test_other_roundings_of_the_function_give_the_same_bits(name):
    """Evaluators multiply by coefficients that each computes, on machines that round otherwise."""
    curve, noise = CURVES[name], torch.Generator().manual_seed(1)

    def rounded_otherwise(x):
        one = torch.rand(x.shape, generator=noise, dtype=x.dtype) - 0.5
        return curve.function(x) * (1 + 4e-15 * one)

    assert series(Curve(rounded_otherwise, curve.left, curve.right), 16) == series(curve, 16)


@pytest.mark.parametrize("name", FOURIER)
def test_shorter_than_fourier_series(name):
    made = series(CURVES[name], 16)
    assert len(made.odd + made.even) <= FOURIER[name] - 2


def test_what_gelu_sends():
    """Of a pending product: cosines, signs of a few bits, and two choices that divide."""
    size, low, far = 640, 12, (4 << 16) + (1 << 12)

    def main(session: tacit.Session) -> tuple[dict[int, int], list[Cost], int]:
        n, p = session.numbers, session.numbers.protocol
        x = n.share(torch.linspace(-6, 6, size), 0, (size,), torch.float32)
        product = n.mul(x, n.settled(x))
        pending = product.arith.pending
        with session.stats.scope("gelu") as spent:
            n.gelu(product)
        sent = {peer: 8 * one.bytes_sent for peer, one in spent.peers.items() if one.bytes_sent}
        reach = (((1 << 36) + 1 + far) >> low) + 1
        costs = p.costs
        shift = 17 + 5 + 1 + 17 + 5 + 3 - 17  # factors for a sum of 2 and 6 cosines, less f + 1
        parts = [
            costs.fourier(size, 6),
            costs.signs(size, reach.bit_length() + 1, 2),
            costs.inject(size, shift + 1),
            costs.inject(size, pending),
        ]
        return sent, parts, spent.rounds

    views = tacit.run(main)
    declared = in_turn(views[0][1])
    for (sender, receiver, _), bits in declared.bits.items():
        assert views[sender][0][receiver] == bits
    assert sum(len(sent) for sent, _, _ in views) == len(declared.bits)
    assert max(rounds for _, _, rounds in views) == views[0][1][1].rounds + 1
