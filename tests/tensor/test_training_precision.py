"""Private training follows plain training in float64, step by step, at the default settings.

The learning rates are those at which plain training itself is stable: with larger ones, weights
that are rounded to 2^-16 after each step in plain torch lead to losses that differ by as much.
"""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import tacit
from tacit.zoo.resnet import BasicBlock

BATCH, ROWS, CLASSES = 16, 128, 4
CLEARTEXT = {"protocol": "cleartext", "parties": 1}


def one_dimensional():
    return nn.Sequential(
        *(nn.Conv1d(1, 4, 5, padding=2), nn.BatchNorm1d(4), nn.ReLU(), nn.MaxPool1d(2)),
        *(nn.Conv1d(4, 8, 3, padding=1), nn.BatchNorm1d(8), nn.ReLU()),
        *(nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(8, CLASSES)),
    )


def lenet():
    """The form of LeNet for pictures of 8 x 8."""
    return nn.Sequential(
        *(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.AvgPool2d(2)),
        *(nn.Conv2d(4, 8, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2)),
        *(nn.Flatten(), nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, CLASSES)),
    )


def resnet():
    return nn.Sequential(
        *(nn.Conv2d(1, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.ReLU()),
        *(BasicBlock(4, 4, 1), BasicBlock(4, 8, 2)),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, CLASSES)),
    )


NETWORKS = {
    "1-D": (one_dimensional, (1, 32), {"sgd": 0.01, "adam": 0.002, "adamw": 0.002}),
    "LeNet": (lenet, (1, 8, 8), {"sgd": 0.03, "adam": 0.002, "adamw": 0.002}),
    "ResNet": (resnet, (1, 8, 8), {"sgd": 0.004, "adam": 0.001, "adamw": 0.001}),
}


def optimizer(name, parameters, rate):
    if name == "sgd":
        return torch.optim.SGD(parameters, lr=rate, momentum=0.9)
    return {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[name](parameters, lr=rate)


def data(shape):
    """A pattern for each class in noise; some labels are wrong, so that losses stay large."""
    draw = torch.Generator().manual_seed(1)
    patterns = torch.randn(CLASSES, *shape, generator=draw)
    labels = torch.randint(0, CLASSES, (ROWS,), generator=draw)
    x = patterns[labels] * 0.6 + torch.randn(ROWS, *shape, generator=draw)
    wrong = torch.rand(ROWS, generator=draw) < 0.15
    return x, torch.where(wrong, torch.randint(0, CLASSES, (ROWS,), generator=draw), labels)


def trained(net, x, y, stepper, steps, number):
    """The losses of all steps."""
    losses = []
    for step in range(steps):
        start = step * BATCH % ROWS
        stepper.zero_grad()
        loss = F.cross_entropy(net(x[start : start + BATCH]), y[start : start + BATCH])
        loss.backward()
        stepper.step()
        losses.append(float(number(loss.detach())))
    return torch.tensor(losses)


def differences(network, method, steps, **options):
    """How far the losses are from those of plain training, relative to them."""
    make, shape, rates = NETWORKS[network]
    torch.manual_seed(0)
    net, (x, y) = make(), data(shape)

    def main(session):
        own = session.share(copy.deepcopy(net), owner=0)
        stepper = optimizer(method, own.parameters(), rates[method])
        return trained(own, session.share(x, owner=0), y, stepper, steps, session.reveal)

    plain = copy.deepcopy(net).double()
    stepper = optimizer(method, plain.parameters(), rates[method])
    wanted = trained(plain, x.double(), y, stepper, steps, lambda loss: loss)
    return (tacit.run(main, **options)[0] - wanted).abs() / wanted


@pytest.mark.parametrize("network", NETWORKS)
def test_a_few_steps(network):
    assert differences(network, "sgd", 4, **CLEARTEXT).max() < 1e-3
    for method in ("adam", "adamw"):
        assert differences(network, method, 2, **CLEARTEXT).max() < 1e-3


# The smallest network takes as many steps as it needs to drift, if it would; the others fewer.
@pytest.mark.full("many steps with three parties; test_a_few_steps runs a few in the clear")
@pytest.mark.parametrize(("network", "steps"), [("1-D", 25), ("LeNet", 100)])
def test_many_steps_of_momentum(network, steps):
    assert differences(network, "sgd", steps).max() < 0.01


@pytest.mark.full("many steps; test_a_few_steps runs a few")
@pytest.mark.parametrize(
    ("network", "method", "steps"),
    [("1-D", "adamw", 25), ("LeNet", "adam", 100), ("ResNet", "adam", 20)],
)
def test_many_steps_of_adam(network, method, steps):
    assert differences(network, method, steps, **CLEARTEXT).max() < 0.01


@pytest.mark.full("many steps with three parties; test_a_few_steps runs a few in the clear")
def test_many_private_steps_of_adam():
    assert differences("LeNet", "adamw", 25).max() < 0.01
