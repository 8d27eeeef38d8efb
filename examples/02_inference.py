"""Handwritten digits are recognised: one party has the network, another the pictures.

    python examples/02_inference.py

The parties are three processes with TLS between them. demo.py shows more of what happens.
"""

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

import tacit

NETWORK, PICTURES = 0, 1  # who has what; party 2 has nothing and helps
COUNT = 32  # pictures that the network never saw


def digits() -> tuple[Tensor, Tensor]:
    data = load_digits()
    return torch.tensor(data.data).float() / 16, torch.tensor(data.target)


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


def trained() -> nn.Module:
    """A plain training, by the owner of the network, on all other pictures."""
    torch.manual_seed(0)
    model, (x, y) = network(), digits()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(60):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x[:-COUNT]), y[:-COUNT]).backward()
        optimizer.step()
    return model


def main(session: tacit.Session) -> Tensor | None:
    """The program of every party; only the owner of something has it."""
    model = session.share(trained() if session.rank == NETWORK else network(), owner=NETWORK)
    mine = digits()[0][-COUNT:] if session.rank == PICTURES else None
    pictures = session.share(mine, owner=PICTURES, shape=(COUNT, 64))
    with torch.no_grad():
        return session.reveal(model(pictures).argmax(1), to=PICTURES)


if __name__ == "__main__":
    answers = tacit.run(main, transport="processes")[PICTURES]
    x, labels = digits()
    same = int((answers == trained()(x[-COUNT:]).argmax(1)).sum())
    right = int((answers == labels[-COUNT:]).sum())
    print(f"{same} of {COUNT} answers as the network gives in plain, {right} right")
