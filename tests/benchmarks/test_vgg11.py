"""The training of VGG-11 on CIFAR-10 runs unchanged with three parties and in an enclave."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import cache

import pytest
import torch
from benchmarks.real import vgg11
from benchmarks.real.vgg11 import CLASSES, Plan, learn, learn_in_plain
from torch import nn
from torch.nn import functional as F

import tacit

PLAN = Plan(
    width=8,
    pictures=32,
    batch=16,
    epochs=2,
    rate=0.005,
    averaged_epochs=1,
    averaged_rate=0.002,
    average_every=1,
)
# By how much the losses may differ, and the weights in relation to the way that they went. A
# rounding may change which inputs of ReLUs and maxima count.
SETTINGS = {
    "trio": ({"protocol": "trio"}, 0.1, 0.6),
    "enclave, 22 bits": ({"protocol": "enclave", "precision": "fixed"}, 0.02, 0.2),
    "enclave, 8 bits": ({"protocol": "enclave", "precision": "swalp"}, 0.5, 1.2),
}


@cache
def drawn():
    """Pictures of one colour for each class, in the place of CIFAR-10's."""
    generator = torch.Generator().manual_seed(1)
    classes = torch.arange(PLAN.pictures) % CLASSES
    colours = torch.randn(CLASSES, 3, 1, 1, generator=generator)[classes]
    noise = torch.randn(PLAN.shapes[0], generator=generator)
    return colours + 0.3 * noise, F.one_hot(classes, CLASSES).float()


@pytest.fixture
def given(monkeypatch):
    monkeypatch.setattr(vgg11, "pictures", lambda _plan: drawn())


def weights(model: nn.Module):
    return nn.utils.parameters_to_vector(model.parameters()).detach()


FIXED = pytest.mark.full("tests/enclave/test_averages.py trains with 22 bits")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[FIXED] * ("22" in name)) for name in SETTINGS]
)
def test_the_script_trains_as_in_plain(name, given):
    settings, most_loss, most_drift = SETTINGS[name]
    (losses, *models), (_, *others), *_ = tacit.run(learn, PLAN, deadline=120.0, **settings)
    assert others == [None, None]
    wanted, *plain = learn_in_plain(PLAN)
    assert losses == pytest.approx(wanted, abs=most_loss)
    first = weights(PLAN.network())
    for found, want in zip(map(weights, models), map(weights, plain), strict=True):
        assert (found - want).norm() < most_drift * (want - first).norm()


def test_the_defaults_are_those_of_the_paper():
    plan = Plan()
    assert (plan.width, plan.pictures, plan.batch) == (64, 50_000, 512)
    assert (plan.rate, plan.halved_every, plan.epochs) == (0.5, 30, 200)
    assert (vgg11.MOMENTUM, vgg11.DECAY) == (0.9, 5e-4)
    assert plan.network().features[0].out_channels == 64


def test_parties_that_are_threads_draw_the_same_network():
    with ThreadPoolExecutor(8) as threads:
        drawn = list(threads.map(lambda _: weights(PLAN.network()), range(40)))
    assert all(torch.equal(one, drawn[0]) for one in drawn)


def test_batches_are_the_same_at_all_parties_and_new_in_each_epoch():
    first, second = (torch.cat(PLAN.batches(epoch)) for epoch in (0, 1))
    assert torch.equal(first, torch.cat(PLAN.batches(0)))
    assert first.sort().values.tolist() == [*range(PLAN.pictures)]
    assert not torch.equal(first, second)
