"""What every party runs: alice has a network, bob has pictures of digits, carol helps.

    tacit run --party alice --parties parties.toml job.py

Only bob learns the answers; parties.toml allows nothing else.
"""

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

import tacit

COUNT = 32  # pictures that the network never saw


def digits() -> tuple[Tensor, Tensor]:
    data = load_digits()
    return torch.tensor(data.data).float() / 16, torch.tensor(data.target)


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


def trained() -> nn.Module:
    """A plain training by alice, on all other pictures."""
    torch.manual_seed(0)
    model, (x, y) = network(), digits()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(60):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x[:-COUNT]), y[:-COUNT]).backward()
        optimizer.step()
    return model


def main(session: tacit.Session) -> None:
    model = session.share(trained() if session.name == "alice" else network(), owner="alice")
    mine = digits()[0][-COUNT:] if session.name == "bob" else None
    pictures = session.share(mine, owner="bob", shape=(COUNT, 64))
    with torch.no_grad():
        answers = session.reveal(model(pictures).argmax(1), to="bob")
    if answers is not None:
        right = int((answers == digits()[1][-COUNT:]).sum())
        print(f"bob: {right} of {COUNT} digits are right")
