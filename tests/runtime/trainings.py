"""A training that breaks off where a test wants it to; importable by the processes of parties."""

from __future__ import annotations

import os
import signal
from contextlib import nullcontext
from typing import Any
from unittest.mock import patch

import torch
from tests.protocols.chosen_randomness import changed_draws
from torch import nn

from tacit import Session
from tacit.nn import checkpoint

ROWS, TOTAL, EVERY = 12, 6, 2
SEED = torch.Generator().manual_seed(11)
X, Y = torch.randn(ROWS, 4, generator=SEED), torch.randn(ROWS, 2, generator=SEED)


def network() -> nn.Module:
    generator = torch.Generator().manual_seed(3)
    model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2))
    for parameter in model.parameters():
        parameter.data.copy_(torch.randn(parameter.shape, generator=generator) / 2)
    return model


def insecure_fixed_masks():
    """Every mask is zero: divisions round down always, whatever keys and shares a session has."""
    return changed_draws(lambda _, words: torch.zeros_like(words))


def train(
    session: Session,
    *,
    total: int = TOTAL,
    crash: tuple[list[int], str, int] | None = None,
    fixed: bool = False,
    **settings: Any,
) -> list[torch.Tensor]:
    """The parameters after `total` steps. `crash`: which parties are killed, where, in which."""
    with insecure_fixed_masks() if fixed else nullcontext():
        model = session.share(network(), owner=0)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
        x, y = session.share(X, owner=0), session.share(Y, owner=1)
        torch.manual_seed(5)
        training = session.training(model, optimizer, **{"every": EVERY} | settings)
        scheduler.load_state_dict(training.extra or scheduler.state_dict())
        for step in training.steps(total):
            rows = training.batch(ROWS, 5)
            noise = torch.randn(5, 4) / 8
            optimizer.zero_grad()
            loss = (model(x[rows] + noise) - y[rows]).square().mean()
            loss.backward()
            optimizer.step()
            scheduler.step()
            training.extra = scheduler.state_dict()
            training.log(loss=session.reveal(loss))
            if crash is not None and session.rank in crash[0] and step == crash[2]:
                break_off(crash[1])
        return [p.detach() for p in session.reveal(model).parameters()]


def break_off(where: str) -> None:
    """SIGKILL now, or when this party's file is about to be written or to get its name."""

    def kill(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    if where == "now":
        kill()
    patch.object(checkpoint, where, kill).start()
