"""Programs that draw public random numbers; at the top level, so that processes can import them."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, TensorDataset, random_split

from tacit import Session

HALVES = torch.full((40,), 0.5)
ROWS = TensorDataset(torch.arange(12))


class NoisyRows(Dataset[Tensor]):
    """Rows with noise that is drawn when they are read, in a worker of a DataLoader for one."""

    def __len__(self) -> int:
        return 6

    def __getitem__(self, row: int) -> Tensor:
        return row + torch.rand(2) + random.random() + np.random.rand()


def _initialised(init: Callable[..., Any], *args: Any) -> Tensor:
    made: Tensor = init(torch.empty(3, 4), *args)
    return made


def _in_training(module: nn.Module, x: Tensor) -> Tensor:
    found = module.train()(x)
    return (found[0] if isinstance(found, tuple) else found).detach()


# The session's numbers are the same at all parties, so each case is a list of numbers.
CASES: dict[str, Callable[[], Any]] = {
    "rand": lambda: torch.rand(3),
    "rand_like": lambda: torch.rand_like(HALVES),
    "randn": lambda: torch.randn(3, dtype=torch.float64),
    "randn_like": lambda: torch.randn_like(HALVES),
    "randint": lambda: torch.randint(1 << 40, (3,)),
    "randint_like": lambda: torch.randint_like(HALVES, 100),
    "randperm": lambda: torch.randperm(20),
    "normal": lambda: torch.normal(HALVES, 2.0),
    "normal of a deviation": lambda: torch.normal(1.0, HALVES),
    "normal of both": lambda: torch.normal(HALVES, HALVES),
    "normal of numbers": lambda: torch.normal(0.0, 1.0, (3,)),
    "normal_": lambda: torch.empty(3).normal_(),
    "uniform_": lambda: torch.empty(3).uniform_(2, 3),
    "random_": lambda: torch.empty(3, dtype=torch.int64).random_(),
    "random_ below": lambda: torch.empty(3).random_(1000),
    "random_ between": lambda: torch.empty(3).random_(10, 1000),
    "exponential_": lambda: torch.empty(3).exponential_(),
    "cauchy_": lambda: torch.empty(3).cauchy_(),
    "geometric_": lambda: torch.empty(9).geometric_(0.1),
    "log_normal_": lambda: torch.empty(3).log_normal_(),
    "bernoulli": lambda: torch.bernoulli(HALVES),
    "bernoulli_ of one number": lambda: torch.empty(40).bernoulli_(0.5),
    "bernoulli_ of a tensor": lambda: torch.empty(40).bernoulli_(HALVES),
    "multinomial": lambda: torch.multinomial(HALVES, 10),
    "multinomial with replacement": lambda: torch.multinomial(HALVES, 10, replacement=True),
    "poisson": lambda: torch.poisson(HALVES * 20),
    "binomial": lambda: torch.binomial(HALVES * 40, HALVES),
    "gamma": lambda: torch.distributions.Gamma(1.0, 1.0).sample((3,)),
    "dirichlet": lambda: torch.distributions.Dirichlet(HALVES[:3]).sample(),
    "given as the default": lambda: torch.rand(3, generator=torch.default_generator),
    "random_split": lambda: random_split(ROWS, [5, 7])[0].indices,
    "order of a DataLoader": lambda: torch.cat([row for [row] in DataLoader(ROWS, shuffle=True)]),
    "seed of a DataLoader": lambda: iter(DataLoader(ROWS))._base_seed,
    "Linear": lambda: nn.Linear(3, 4).weight.detach(),
    "Conv2d": lambda: nn.Conv2d(1, 2, 3).bias.detach(),  # type: ignore[union-attr]
    "Embedding": lambda: nn.Embedding(3, 4).weight.detach(),
    "xavier_normal_": lambda: _initialised(nn.init.xavier_normal_),
    "kaiming_uniform_": lambda: _initialised(nn.init.kaiming_uniform_),
    "orthogonal_": lambda: _initialised(nn.init.orthogonal_),
    "sparse_": lambda: _initialised(nn.init.sparse_, 0.5),
    "trunc_normal_": lambda: _initialised(nn.init.trunc_normal_),
    "dropout": lambda: F.dropout(HALVES),
    "dropout2d": lambda: F.dropout2d(HALVES.reshape(1, 20, 1, 2)),
    "alpha_dropout": lambda: F.alpha_dropout(HALVES, training=True),
    "native_dropout": lambda: torch.native_dropout(HALVES, 0.5, True)[0],
    "rrelu": lambda: F.rrelu(-HALVES, training=True),
    "gumbel_softmax": lambda: F.gumbel_softmax(HALVES),
    "dropout of an LSTM": lambda: _in_training(nn.LSTM(2, 3, 2, dropout=0.5), torch.ones(5, 1, 2)),
    "dropout of attention": lambda: _in_training(
        nn.TransformerEncoderLayer(4, 2, 8), torch.ones(5, 1, 4)
    ),
    "seed": torch.seed,
    "initial_seed": torch.initial_seed,
}


def draw_all(session: Session) -> dict[str, Any]:
    """What every case draws, as lists; and what it draws in inference mode."""
    drawn = {name: torch.as_tensor(case()).tolist() for name, case in CASES.items()}
    with torch.inference_mode():
        drawn["inference_mode"] = torch.rand(3).tolist()
    return drawn


def draw_in_process(session: Session) -> dict[str, Any]:
    """The same, with generators that threads of one process share."""
    drawn = draw_all(session)
    batches = DataLoader(NoisyRows(), batch_size=2, shuffle=True, num_workers=1)
    return drawn | {
        "random": [random.random() for _ in range(3)],
        "numpy": np.random.rand(3).tolist(),
        "workers": torch.cat(list(batches)).tolist(),
    }


def features(rows: int, width: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(4)
    x = torch.randn(rows, width, generator=generator)
    return x, (x.sum(1) > 0).long()


def train(x: Tensor, y: Tensor, share: Callable[[nn.Module], nn.Module]) -> list[Tensor]:
    """The losses of an ordinary training, after `torch.manual_seed`."""
    torch.manual_seed(21)
    model = share(nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    losses = []
    for _ in range(2):
        for inputs, labels in DataLoader(TensorDataset(x, y), batch_size=5, shuffle=True):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(inputs), labels)
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
    return losses
