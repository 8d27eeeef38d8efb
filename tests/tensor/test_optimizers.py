"""Optimizers, clipping and schedules are torch's own: step by step as on plain tensors."""

import pytest
import torch
from tests.tensor.comparison import tensor
from torch import nn

import tacit

STEPS = 4
CHOICES = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.1),
    "nesterov": lambda p: torch.optim.SGD(
        p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01
    ),
    "adam": lambda p: torch.optim.Adam(p, lr=0.05),
    "adam with decay": lambda p: torch.optim.Adam(p, lr=0.05, weight_decay=0.1, amsgrad=True),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.05),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.02, momentum=0.5, centered=True),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.1),
}
BOTH = pytest.mark.parametrize("foreach", [False, True], ids=["loop", "foreach"])


def network():
    layers = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3))
    for i, parameter in enumerate(layers.parameters()):
        parameter.data = tensor(*parameter.shape, seed=i, scale=0.5)
    return layers


def trained(layers, x, y, make, steps=STEPS, clip=None):
    """The parameters after each step."""
    optimizer = make(list(layers.parameters()))
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, gamma=0.5)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = ((layers(x) - y) ** 2).mean()
        loss.backward()
        if clip is not None:
            nn.utils.clip_grad_norm_(layers.parameters(), clip)
        optimizer.step()
        schedule.step()
        yield [parameter.detach().clone() for parameter in layers.parameters()]


def compared(make, clip=None, tolerance=2**-8, **settings):
    """Trains in plain and on secrets, and compares the parameters of every step."""
    x, y = tensor(6, 4, seed=10), tensor(6, 3, seed=11)
    settings = {"protocol": "cleartext", "parties": 1} | settings

    def main(session):
        layers = session.share(network(), owner=0)
        data = session.share([x, y], owner=0)
        return [session.reveal(step) for step in trained(layers, *data, make, clip=clip)]

    plain = list(trained(network(), x, y, make, clip=clip))
    found = tacit.run(main, **settings)[0]
    for number, (mine, theirs) in enumerate(zip(found, plain, strict=True)):
        for one, other in zip(mine, theirs, strict=True):
            error = float((one - other).abs().max())
            assert error < tolerance, f"step {number}: {error}"


@pytest.mark.parametrize("name", CHOICES)
def test_every_step_is_torchs(name):
    # A step of Adam is the gradient over its own size: where that is small, units of it count.
    compared(CHOICES[name], tolerance=2**-8 if "ad" not in name else 2**-5)


@BOTH
def test_lists_of_tensors(foreach):
    compared(lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, foreach=foreach))
    compared(lambda p: torch.optim.Adam(p, lr=0.05, foreach=foreach), tolerance=2**-5)


def test_clipping():
    compared(CHOICES["sgd"], clip=0.5)
    compared(CHOICES["sgd"], clip=100.0)


def test_three_parties():
    compared(CHOICES["nesterov"], clip=1.0, protocol="trio", parties=3)
    compared(CHOICES["adam"], protocol="trio", parties=3, tolerance=2**-5)
