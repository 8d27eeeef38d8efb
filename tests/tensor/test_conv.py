"""Convolutions of secrets: within a unit of the exact ones, in one round."""

from __future__ import annotations

import pytest
import torch
from tests.tensor.module_comparison import agree
from torch import nn
from torch.nn import functional as F

import tacit

UNIT = 2.0**-16


def tensor(*shape: int, seed: int = 0) -> torch.Tensor:
    """Multiples of 1/256, so that products have no more bits than a secret."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-512, 512, shape, generator=generator) / 256


CASES = {
    "1d": (nn.Conv1d(3, 4, 3), (2, 3, 9)),
    "1d dilated": (nn.Conv1d(3, 4, 3, dilation=2, padding=2), (2, 3, 9)),
    "2d": (nn.Conv2d(3, 4, 3), (2, 3, 6, 5)),
    "2d strided in groups": (nn.Conv2d(4, 6, (3, 2), stride=2, padding=1, groups=2), (2, 4, 7, 6)),
    "2d depthwise": (nn.Conv2d(4, 8, 3, groups=4, bias=False), (1, 4, 5, 5)),
    "2d same": (nn.Conv2d(2, 3, 4, padding="same"), (1, 2, 5, 5)),
    "2d reflected": (nn.Conv2d(2, 3, 3, padding=1, padding_mode="reflect"), (1, 2, 5, 5)),
    "2d without batch": (nn.Conv2d(2, 3, 3), (2, 5, 5)),
    "3d": (nn.Conv3d(2, 3, 2, stride=(1, 2, 1)), (2, 2, 4, 4, 3)),
    "transposed 1d": (nn.ConvTranspose1d(3, 4, 3, stride=2), (2, 3, 5)),
    "transposed 2d": (
        nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2),
        (2, 4, 3, 4),
    ),
    "transposed 3d": (nn.ConvTranspose3d(2, 3, 2, dilation=2), (1, 2, 3, 2, 2)),
}


@pytest.mark.parametrize("protocol", ["cleartext", "trio"])
@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore:Using padding='same'")
def test_convolutions_and_their_gradients(name, protocol):
    module, shape = CASES[name]
    agree(module, tensor(*shape), protocol=protocol, absolute=2e-3, relative=0)


@pytest.mark.parametrize("name", ["2d", "2d strided in groups", "transposed 2d"])
def test_public_weights(name):
    module, shape = CASES[name]
    agree(module, tensor(*shape), protocol="trio", shared=False, absolute=1e-3, relative=0)


@pytest.mark.parametrize("protocol", ["trio", "replicated"])
@pytest.mark.parametrize("transposed", [False, True])
def test_within_a_unit_of_the_exact_result(protocol, transposed):
    x, bias = tensor(2, 4, 7, 7), tensor(6, seed=2)
    weight = tensor(4, 6, 3, 3, seed=1) if transposed else tensor(6, 4, 3, 3, seed=1)
    conv = F.conv_transpose2d if transposed else F.conv2d

    def main(session):
        secrets = [session.share(y, owner=i) for i, y in enumerate((x, weight, bias))]
        return session.reveal(conv(*secrets, stride=2, padding=1))

    exact = conv(x.double(), weight.double(), bias.double(), stride=2, padding=1)
    for got in tacit.run(main, protocol=protocol):
        assert (got - exact).abs().max() <= UNIT


def test_rounds_of_a_layer():
    """One for the product; the ReLU divides on the way and adds no more than its comparison."""
    x, weight, bias = tensor(1, 3, 6, 6), tensor(4, 3, 3, 3, seed=1), tensor(4, seed=2)

    def main(session):
        x_, w_, b_ = (session.share(y, owner=0) for y in (x, weight, bias))
        costs = {}
        for name, layer in (
            ("conv", lambda: F.conv2d(x_, w_, b_)),
            ("public", lambda: F.conv2d(x_, weight, bias)),
            ("conv and relu", lambda: F.relu(F.conv2d(x_, w_, b_))),
            ("relu", lambda: F.relu(x_)),
        ):
            with session.stats.scope(name) as cost:
                layer()
            costs[name] = cost.rounds
        return costs

    costs = tacit.run(main)[1]
    assert costs["conv"] == 1
    assert costs["public"] == 0
    assert costs["conv and relu"] <= costs["relu"] + 1 + 1  # a wider window may take one more
