"""What waits for the operation that follows gives the bits of torch's operations, one by one."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from tests.enclave.trainings import train
from torch import nn

import tacit
from tacit.enclave.trusted.outsourcing import Outsourcer
from tacit.kernels.activations import Integers
from tacit.protocols import unfinished
from tacit.protocols.unfinished import UnfinishedProduct
from tacit.ring.reference import activations as reference
from tacit.tensor import fused_rules, plain_rules

aten = torch.ops.aten


class Forks(nn.Module):
    """A product that is used before its ReLU, and after; windows of other sizes; no bias."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(8, 8, 3, padding=1, bias=False)
        self.second = nn.Conv2d(8, 8, 3, padding=1)

    def forward(self, x):
        product = self.first(x)
        x = nn.functional.relu(product) + product.sigmoid()
        pooled = nn.functional.max_pool2d(self.second(x), 2).relu()  # first the windows
        return nn.functional.max_pool2d(x, 3, stride=2, padding=1)[..., :3, :3] + pooled


def network():
    torch.manual_seed(3)
    first = [nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]  # 13 -> 6
    second = [nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(inplace=True), Forks()]
    last = [nn.Flatten(), nn.Linear(72, 20), nn.ReLU(), nn.Linear(20, 10, bias=False), nn.ReLU()]
    return nn.Sequential(*first, *second, *last)


def learnt(session):
    """The weights after two steps of training, and what the network says then."""
    model = session.share(network(), owner=0)
    generator = torch.Generator().manual_seed(4)
    x = session.share(torch.rand(6, 3, 13, 13, generator=generator), owner=1)
    train(model, x, session.share(torch.arange(6) % 10, owner=1), 2)
    weights = nn.utils.parameters_to_vector(model.parameters()).detach()
    return session.reveal(weights), session.reveal(model(x).detach())


def run(main, **settings):
    return tacit.run(main, parties=2, protocol="enclave", **settings)


def without_fusing(monkeypatch):
    """Makes every operation run alone, as torch's."""
    monkeypatch.setattr(plain_rules, "FUSED", {})
    monkeypatch.setattr(Outsourcer, "multiply", multiplied_alone)


multiply = Outsourcer.multiply


def multiplied_alone(self, op, a, b):
    made = multiply(self, op, a, b)
    return reference.finish(*made, None, relu=False) if isinstance(made, Integers) else made


def test_a_training_is_that_of_single_operations(monkeypatch):
    [found, _] = run(learnt, precision="fixed")
    without_fusing(monkeypatch)
    [wanted, _] = run(learnt, precision="fixed")
    for one, other in zip(found, wanted, strict=True):
        assert torch.equal(one.view(torch.int32), other.view(torch.int32))


@pytest.mark.parametrize("precision", ["fixed", "swalp", "goten"])
def test_every_pass_is_the_operations_that_it_stands_for(precision, monkeypatch):
    """8 bits are rounded at random: each pass is compared on the numbers that it gets."""
    seen = Counter()

    def finished(x, exponent, bias, *, relu):
        found = finish_product(x, exponent, bias, relu=relu)
        shown = (
            None if bias is None else bias.values.view(-1, *(1 for _ in x.shape[bias.dim + 1 :]))
        )
        wanted = reference.finish(x, exponent, shown, relu=relu)
        assert torch.equal(found.view(torch.int32), wanted.view(torch.int32))
        seen[x.dtype, bias is not None, relu] += 1
        return found

    def pooled(x):
        found = max_pool2x2(x)
        wanted, places = aten.max_pool2d_with_indices(x, [2, 2])
        assert torch.equal(found.values, wanted)
        assert torch.equal(found.places, places)
        seen["pooled"] += 1
        return found

    def backward(grad, x, places, after_relu=None):
        found = max_pool2x2_backward(grad, x, places, after_relu)
        wanted = aten.max_pool2d_with_indices_backward(grad, x, *reference.WINDOW, places)
        wanted = wanted if after_relu is None else aten.threshold_backward(wanted, x, 0)
        assert torch.equal(found.view(torch.int32), wanted.view(torch.int32))
        seen["backward", after_relu is not None] += 1
        return found

    finish_product, max_pool2x2 = unfinished.finish_product, fused_rules.max_pool2x2
    max_pool2x2_backward = unfinished.max_pool2x2_backward
    monkeypatch.setattr(unfinished, "finish_product", finished)
    monkeypatch.setattr(fused_rules, "max_pool2x2", pooled)
    monkeypatch.setattr(unfinished, "max_pool2x2_backward", backward)
    run(learnt, precision=precision)
    dtype = torch.int32 if precision == "swalp" else torch.int64
    assert seen[dtype, True, True] == 3 * 2  # two layers with ReLU behind a bias; three times
    assert seen[dtype, False, True] == 3 * 2  # and two without a bias
    assert seen[dtype, True, False] == 3 * 2  # before batch normalisation, and before windows
    assert seen["pooled"] == 3 * 2
    assert (seen["backward", True], seen["backward", False]) == (2, 2)


def test_a_value_that_waits_gives_up_its_integers_when_it_is_read():
    product = Integers(torch.arange(12, dtype=torch.int32).view(3, 4), -1)
    value = UnfinishedProduct(product).with_bias(torch.ones(4))
    after = value.with_relu()
    assert (value.shape, value.is_finished) == (torch.Size([3, 4]), False)
    assert torch.equal(value.tensor, torch.arange(12.0).view(3, 4) / 2 + 1)
    assert value.tensor is value.tensor
    assert value.is_finished
    assert value._product is None
    assert value.with_relu() is value.with_bias(torch.ones(4)) is None
    assert torch.equal(after.tensor, value.tensor)


@pytest.mark.parametrize(
    "other", [torch.ones(3, 4), torch.ones(1), torch.tensor(1.0), torch.ones(4).double()]
)
def test_only_a_bias_waits(other):
    product = UnfinishedProduct(Integers(torch.zeros(3, 4, dtype=torch.int32), 0))
    assert product.with_bias(other) is None
    assert product.with_bias(torch.ones(4)).with_bias(torch.ones(4)) is None
    assert product.with_relu().with_bias(torch.ones(4)) is None
