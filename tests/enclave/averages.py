"""A training with schedules and averaged weights, for plain torch and for secrets alike."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import SGD, Optimizer, lr_scheduler
from torch.optim.swa_utils import SWALR, AveragedModel, get_ema_multi_avg_fn, update_bn

import tacit

STEPS, AVERAGED_FROM, BATCH = 6, 3, 8
Schedule = Callable[[Optimizer], lr_scheduler.LRScheduler]
SCHEDULES: dict[str, Schedule] = {
    "step": lambda o: lr_scheduler.StepLR(o, 2, gamma=0.5),
    "cosine": lambda o: lr_scheduler.CosineAnnealingLR(o, STEPS),
    "one cycle": lambda o: lr_scheduler.OneCycleLR(o, 0.1, total_steps=STEPS + 1),
}
SETTINGS: dict[str, dict[str, Any]] = {
    "momentum": {"momentum": 0.9},
    "nesterov": {"momentum": 0.9, "nesterov": True, "weight_decay": 0.01},
}


def network() -> nn.Module:
    """A smooth one: roundings change no choice of a ReLU or a maximum, so bounds can be narrow."""
    layers = [nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.GELU(), nn.AvgPool2d(2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(64, 4))


def train(model: nn.Module, x: Tensor, y: Tensor, schedule: str, settings: str) -> nn.Module:
    """Trains in place, and returns the model with averaged weights and its own batch norms."""
    optimizer = SGD(model.parameters(), 0.1, **SETTINGS[settings])
    before, after = SCHEDULES[schedule](optimizer), SWALR(optimizer, 0.02, anneal_epochs=2)
    multi = get_ema_multi_avg_fn(0.75) if settings == "nesterov" else None
    averaged = AveragedModel(model, multi_avg_fn=multi)
    for step in range(STEPS):
        rows = slice(step % 2 * BATCH, (step % 2 + 1) * BATCH)
        optimizer.zero_grad()
        F.cross_entropy(model(x[rows]), y[rows]).backward()
        optimizer.step()
        if step < AVERAGED_FROM:
            before.step()
        else:
            averaged.update_parameters(model)
            after.step()
    update_bn([x[:BATCH], x[BATCH:]], averaged)
    return averaged.module


def numbers(model: nn.Module) -> dict[str, Tensor]:
    """All weights and the statistics of batch norms, by name."""
    state = model.state_dict()
    return {name: state[name] for name in state if state[name].is_floating_point()}


def compared(session: tacit.Session, schedule: str, settings: str) -> list[dict[str, float]]:
    """By how much numbers differ from plain torch's: of the model, and of the averaged one."""
    torch.manual_seed(3)
    plain = network()
    x, y = torch.rand(2 * BATCH, 1, 8, 8), F.one_hot(torch.arange(2 * BATCH) % 4, 4).float()
    secret = session.share(copy.deepcopy(plain), owner=0)
    averaged = train(secret, *session.share([x, y], owner=1), schedule, settings)
    wanted = [plain, train(plain, x, y, schedule, settings)]
    last, mean = (nn.utils.parameters_to_vector(one.parameters()) for one in wanted)
    assert (last - mean).abs().max() > 0.005  # an average that is not taken would be noticed
    differences = []
    for found, want in zip((secret, averaged), wanted, strict=True):
        opened = numbers(session.reveal(found))
        differences.append(
            {n: float((opened[n] - v).abs().max()) for n, v in numbers(want).items()}
        )
    return differences
