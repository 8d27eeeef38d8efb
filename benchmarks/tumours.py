"""A dense network that learns to tell tumours: 569 of them, 30 measured features (scikit-learn)."""

from __future__ import annotations

import torch
from benchmarks.real.vgg11 import DRAWING
from sklearn.datasets import load_breast_cancer
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import SGD
from torch.optim.lr_scheduler import StepLR
from torch.optim.swa_utils import SWALR, AveragedModel

import tacit

TEST, BATCH = 169, 50
EPOCHS, AVERAGED_EPOCHS = 15, 5
Outcome = tuple[float, float, float]


def data(split: int) -> tuple[Tensor, Tensor]:
    """Features with mean 0 and deviation 1, and classes, in a random order."""
    found = load_breast_cancer()
    x, y = torch.tensor(found.data).float(), torch.tensor(found.target)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(split))
    x = x[order]
    return (x - x[:-TEST].mean(0)) / x[:-TEST].std(0), y[order]


def network(split: int) -> nn.Module:
    with DRAWING, torch.random.fork_rng():
        torch.manual_seed(split)
        return nn.Sequential(
            nn.Linear(30, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 2)
        )


def train(model: nn.Module, x: Tensor, y: Tensor) -> tuple[nn.Module, Tensor]:
    """Trains in place; returns the model with averaged weights, and the last loss."""
    optimizer = SGD(model.parameters(), 0.05, momentum=0.9, weight_decay=5e-4)
    schedule, constant = StepLR(optimizer, 5, 0.5), SWALR(optimizer, 0.01, anneal_epochs=1)
    averaged = AveragedModel(model)
    for epoch in range(EPOCHS):
        is_averaged = epoch >= EPOCHS - AVERAGED_EPOCHS
        for rows in torch.arange(len(x)).split(BATCH):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x[rows]), y[rows])
            loss.backward()
            optimizer.step()
        if is_averaged:
            averaged.update_parameters(model)
        (constant if is_averaged else schedule).step()
    return averaged.module, loss.detach()


def learn(session: tacit.Session, split: int) -> Outcome:
    """Party 0 has the network and gets it, party 1 has the data and tells how many are right."""
    x, y = (part[:-TEST] for part in data(split))
    model = session.share(network(split), owner=0)
    averaged, loss = train(model, session.share(x, owner=1), session.share(_columns(y), owner=1))
    models = session.reveal(model), session.reveal(averaged)
    return (*(accuracy(one, split) for one in models), float(session.reveal(loss)))


def learn_in_plain(split: int) -> Outcome:
    """The same without secrets."""
    x, y = (part[:-TEST] for part in data(split))
    model = network(split)
    averaged, loss = train(model, x, _columns(y))
    return accuracy(model, split), accuracy(averaged, split), float(loss)


@torch.no_grad()
def accuracy(model: nn.Module, split: int) -> float:
    """How many of 100 tumours of the test a plain network has right."""
    x, y = (part[-TEST:] for part in data(split))
    return 100 * float((model(x).argmax(1) == y).float().mean())


def _columns(y: Tensor) -> Tensor:
    return F.one_hot(y, 2).float()
