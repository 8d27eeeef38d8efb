"""A small network whose training in an enclave is compared with that of plain torch."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import tacit


def network() -> nn.Module:
    layers = [nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Dropout(0.0), nn.Linear(64, 10))


def train(model: nn.Module, x: Tensor, y: Tensor, steps: int = 4) -> Tensor:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    return loss.detach()


def trained(session: tacit.Session) -> tuple[Tensor, Tensor]:
    """The weights after some steps, in the enclave and in plain."""
    torch.manual_seed(3)
    plain, x, y = network(), torch.rand(8, 1, 8, 8), torch.arange(8)
    model = session.share(copy.deepcopy(plain), owner=0)
    secrets = session.share(x, owner=1), session.share(y, owner=0)
    train(model, *secrets)
    train(plain, x, y)
    opened = session.reveal(model)
    return tuple(nn.utils.parameters_to_vector(m.parameters()).detach() for m in (opened, plain))
