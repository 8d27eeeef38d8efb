"""The same data and the same models in plain torch: what the parties' answers are compared with."""

from __future__ import annotations

from functools import cache

import torch
from tests.deployment.jobs.digits import network
from torch import Tensor, nn

ASIDE = 64  # pictures that the inference is about; the training has the others
BATCH = 32


@cache
def digits() -> tuple[Tensor, Tensor]:
    """Pictures, no number of which is round, and labels."""
    from sklearn.datasets import load_digits  # takes seconds

    data = load_digits()
    return torch.tensor(data.data).float() * 0.0613 + 0.0123456, torch.tensor(data.target)


@cache
def trained() -> nn.Module:
    """A network that knows most digits, by an ordinary training."""
    torch.manual_seed(0)
    model, (x, y) = network(), digits()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(60):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x[:-ASIDE]), y[:-ASIDE]).backward()
        optimizer.step()
    return model


def answers() -> Tensor:
    """What the network says to the pictures that were set aside."""
    with torch.no_grad():
        return trained()(digits()[0][-ASIDE:]).argmax(1)


def targets() -> Tensor:
    return nn.functional.one_hot(digits()[1][:-ASIDE], 10).float()


def losses(steps: int) -> list[float]:
    """Those of jobs/train.py without secrets."""
    torch.manual_seed(1)
    model, x, y = network(), digits()[0][:-ASIDE], targets()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5)
    found = []
    for step in range(steps):
        rows = (torch.arange(BATCH) + step * BATCH) % len(x)
        optimizer.zero_grad()
        loss = (model(x[rows]) - y[rows]).square().sum(1).mean()
        loss.backward()
        optimizer.step()
        found.append(float(loss.detach()))
    return found
