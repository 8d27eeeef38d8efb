"""The simulation of small rings: exact while sums fit, and wrong by the ring's size if not."""

from __future__ import annotations

import pytest
import torch
from benchmarks.real.ring16 import FixedPoint, Form, fixed_point, relu_bytes
from torch import nn

from tacit.protocols import Trio


def layer(weight, bias=0.0):
    made = nn.Linear(2, 1)
    nn.init.constant_(made.weight, weight)
    nn.init.constant_(made.bias, bias)
    return made


def test_sums_are_those_of_integers():
    one = FixedPoint(layer(1.5, 0.25), Form(16, fraction_bits=4))
    x = torch.tensor([[1.0, 2.03], [-3.5, 0.01]], dtype=torch.float64)
    floors = torch.tensor([[16, 32], [-56, 0]])
    assert (one(x) * 256).flatten().tolist() == [24 * int(row.sum()) + 64 for row in floors]
    assert (one.sums, one.wraps) == (2, 0)


@pytest.mark.parametrize(("value", "wraps"), [(127.9, 0), (128.0, 1), (-128.0, 0), (-128.1, 1)])
def test_a_sum_beyond_the_ring_wraps(value, wraps):
    one = FixedPoint(layer(0.5), Form(16, fraction_bits=4))
    x = torch.full((1, 2), value, dtype=torch.float64)
    expected = float(torch.floor(x[0, 0] * 16) * 16) / 256
    assert one(x).item() == expected - (256 if expected >= 128 else -256 if expected < -128 else 0)
    assert one.wraps == wraps


def test_calibrated_sums_leave_bits_to_spare():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten()).eval()
    x = torch.randn(8, 2, 6, 6)
    for form, error in (
        (Form(16, 0), 0.1),
        (Form(32, 1), 1e-3),
        (Form(64, fraction_bits=16), 1e-3),
    ):
        made = fixed_point(model, form)
        with torch.no_grad():
            assert (made(x.double()) - model(x)).abs().max() < error
        for one in made.modules():
            if isinstance(one, FixedPoint):
                assert one.wraps == 0


def test_bytes_are_those_of_declared_costs():
    found = relu_bytes(Trio, Form(32, 0, 10))
    costs = Trio.declared_costs(32)
    bits = [costs.bilinear(64, 10), costs.signs(64, 26), costs.inject(64, 10)]
    dealt = sum(bits_ for one in bits for (sender, *_), bits_ in one.bits.items() if sender == 0)
    assert found[0] == pytest.approx(dealt / 64 / 8)
