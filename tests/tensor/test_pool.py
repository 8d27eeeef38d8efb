"""Poolings of secrets: who wins, what the gradient reads, and what is not computed."""

from __future__ import annotations

import pytest
import torch
from tests.tensor.module_comparison import agree
from torch import nn
from torch.nn import functional as F

import tacit
from tacit.errors import PartyFailed

SMALL = {"absolute": 1e-4, "relative": 0}


def whole(*shape: int, seed: int = 0, high: int = 4) -> torch.Tensor:
    """Small integers, of which many are equal."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-high, high, shape, generator=generator).float()


MAXIMA = {
    "2 x 2": nn.MaxPool2d(2),
    "overlapping": nn.MaxPool2d(3, 2),
    "padded": nn.MaxPool2d(3, 2, padding=1),
    "dilated": nn.MaxPool2d(2, 1, padding=1, dilation=3),
    "ceiling": nn.MaxPool2d(2, 2, ceil_mode=True),
    "padded ceiling": nn.MaxPool2d((3, 4), (2, 3), padding=(1, 2), ceil_mode=True),
    "adaptive": nn.AdaptiveMaxPool2d((3, 4)),
}
MEANS = {
    "2 x 2": nn.AvgPool2d(2),
    "padded": nn.AvgPool2d(3, 2, padding=1),
    "padded, not counted": nn.AvgPool2d(3, 2, padding=1, count_include_pad=False),
    "ceiling": nn.AvgPool2d(3, 2, padding=1, ceil_mode=True),
    "ceiling, not counted": nn.AvgPool2d(2, 3, ceil_mode=True, count_include_pad=False),
    "divisor": nn.AvgPool2d(2, divisor_override=3),
    "adaptive": nn.AdaptiveAvgPool2d((3, 4)),
    "adaptive 3d": nn.AdaptiveAvgPool3d((2, 3, 4)),
}


@pytest.mark.parametrize("protocol", ["cleartext", "trio"])
@pytest.mark.parametrize("name", MAXIMA)
def test_largest_elements_with_equals_and_padding(name, protocol):
    """Negative images: a padding of zeros would win. The first of equals gets the gradient."""
    agree(MAXIMA[name], whole(2, 3, 7, 7) - 8, protocol=protocol, **SMALL)


@pytest.mark.parametrize("name", MEANS)
def test_means(name):
    agree(MEANS[name], whole(2, 3, 7, 7), **SMALL)


def test_means_of_three_parties():
    agree(MEANS["ceiling"], whole(2, 3, 7, 7), protocol="trio", **SMALL)


@pytest.mark.parametrize("protocol", ["cleartext", "trio"])
def test_places_are_those_of_torch(protocol):
    x = whole(2, 3, 7, 7)

    def main(session):
        _, places = F.max_pool2d(session.share(x, owner=0), 3, 2, 1, return_indices=True)
        return session.reveal(places)

    wanted = F.max_pool2d(x, 3, 2, 1, return_indices=True)[1]
    parties = 1 if protocol == "cleartext" else 3
    assert all(
        torch.equal(got, wanted) for got in tacit.run(main, protocol=protocol, parties=parties)
    )


def test_a_pending_product_is_pooled():
    x, weight = whole(1, 2, 8, 8), whole(3, 2, 3, 3, seed=1)

    def main(session):
        secrets = session.share(x, owner=0), session.share(weight, owner=1)
        return session.reveal(F.max_pool2d(F.conv2d(*secrets, padding=1), 3, 2, 1))

    wanted = F.max_pool2d(F.conv2d(x, weight, padding=1), 3, 2, 1)
    assert (tacit.run(main)[0] - wanted).abs().max() <= 2.0**-15


def test_only_what_is_read_is_computed():
    """A pool in a forward pass costs what the largest of four costs, its gradient a round and the
    joining of the bits."""
    x = whole(1, 2, 4, 4)

    def main(session):
        secret = session.share(x, owner=0).requires_grad_()
        rows = session.share(whole(8, 4), owner=0)
        with session.stats.scope("largest") as largest:
            rows.amax(-1)
        with session.stats.scope("pool") as pool:
            y = F.max_pool2d(secret, 2)
        with session.stats.scope("gradient") as gradient:
            y.sum().backward()
        with session.stats.scope("mean") as mean:
            F.avg_pool2d(secret, 2)
        return largest.rounds, pool.rounds, gradient.rounds, mean.rounds

    largest, pool, gradient, mean = tacit.run(main)[1]
    assert pool == largest
    assert gradient <= 2
    assert mean == 0


def test_a_window_of_padding_only_is_refused():
    def main(session):
        x = session.share(torch.ones(1, 1, 2, 2), owner=0)
        F.max_pool2d(x, 2, 1, padding=2, dilation=5)

    with pytest.raises(PartyFailed, match="covers only padding"):
        tacit.run(main, protocol="cleartext", parties=1)
