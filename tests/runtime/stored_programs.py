"""Programs that are preprocessed and run from stored runs, in tests."""

from __future__ import annotations

from typing import Any

import torch
from tests.protocols.views import EVERY, shared
from torch import Tensor, nn

from tacit import Session, zoo
from tacit.protocols import Arith, Bool

# Operations whose results follow from their operands. Quotients are rounded at random.
EXACT = (
    *("mul", "square", "matmul", "bit_and", "bit_and of 4", "sign", "narrow sign", "signs"),
    *("is_zero", "inject", "inject_sums", "relu", "max", "relu_with_bit"),
    *("max, radix 4", "argmax", "one_hot_argmax", "sort", "topk", "select", "equal", "refresh"),
)
ROUNDED = (
    *("mul, divided", "truncate", "inject of a quotient", "relu of a quotient", "fourier"),
    "exp of negatives",
)
OPERATIONS = EVERY | {
    "exp of negatives": lambda p, v: p.exp_negative(shared(p, -v.abs()), fraction_bits=8)
}


def operations(session: Session) -> dict[str, list[Tensor]]:
    """Returns the results of many operations of the protocol, at a party."""
    p, found = session.protocol, {}
    values = torch.arange(-52, 52).to(p.ring.dtype) * 9 + 4
    for name in EXACT + ROUNDED:
        made = OPERATIONS[name](p, values)
        found[name] = [p.reveal(one) for one in shares_in(made)]
    return found


def shares_in(made: Any) -> list[Arith | Bool]:
    several = made if isinstance(made, list | tuple) else [made]
    return [one for one in several if isinstance(one, Arith | Bool)]


def layer(session: Session, rows: int = 3) -> Tensor:
    """A small layer on inputs of two owners, with public random numbers and control messages."""
    x = session.share(inputs(rows) if session.rank == 0 else None, 0, (rows, 4))
    w = {"weight": torch.full((4, 2), 0.5), "bias": torch.ones(2)}
    shared = session.share(w, 1)
    y = torch.relu(x @ shared["weight"] + shared["bias"]) * torch.rand(2)
    return session.reveal(y)


def inputs(rows: int) -> Tensor:
    return torch.linspace(-2, 2, rows * 4).reshape(rows, 4)


def doubled(session: Session) -> Tensor:
    """Like `layer`, but the dealer has other work."""
    return layer(session, 6)


def shown_to_dealer(session: Session) -> Tensor:
    x = session.share(torch.ones(3), 0)
    return session.reveal(x * x, to_dealer=True)


def decides(session: Session) -> Tensor:
    """What it does next depends on a revealed value."""
    x = session.share(torch.ones(3), 0)
    total = session.reveal((x * x).sum())
    if total > 1:
        x = x * x
    return session.reveal(torch.relu(x))


def lenet(session: Session) -> tuple[Tensor, Tensor]:
    """Returns the private and the plain scores of a small picture."""
    model, picture = lenet_model(), torch.rand(1, 1, 28, 28, generator=torch.Generator())
    plain = model(picture).detach()
    private = session.share(model, 0)
    return session.reveal(private(session.share(picture, 1))).detach(), plain


def lenet_model() -> nn.Module:
    torch.manual_seed(3)
    return zoo.lenet5().eval()


def training(session: Session, path: str) -> list[float]:
    """Returns the losses of two steps on a file of party 1, whose shape only its owner knows."""
    torch.manual_seed(7)
    model = session.share(nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 1)), 0)
    x = session.load(path if session.rank == 1 else None, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    losses = []
    for _ in range(2):
        optimizer.zero_grad()
        loss = (model(x) - 1).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss)
    return [float(session.reveal(loss)) for loss in losses]
