"""Two owners of data train one network on what both have; a third party helps.

    python examples/03_two_owners_train.py

Party 0 has pictures of digits and their labels, party 1 has others. The losses are revealed to all,
the trained network to party 1. Batches are drawn from a public seed: which rows are used together
is public, what is in them is not.
"""

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

import tacit

ROWS, TEST, EPOCHS, BATCH = 512, 256, 4, 64  # ROWS for each owner


def digits() -> tuple[Tensor, Tensor]:
    data = load_digits()
    return torch.tensor(data.data).float() / 16, torch.tensor(data.target)


def own_rows(rank: int) -> tuple[Tensor, Tensor]:
    """What a party has: pictures, and labels as probabilities of the ten classes."""
    x, y = (part[rank * ROWS : (rank + 1) * ROWS] for part in digits())
    return x, nn.functional.one_hot(y, 10).float()


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


def main(session: tacit.Session) -> tuple[list[float], nn.Module | None]:
    nothing = torch.empty(ROWS, 64), torch.empty(ROWS, 10)
    shared = [
        session.share(own_rows(rank) if session.rank == rank else nothing, owner=rank)
        for rank in (0, 1)
    ]
    x, y = (torch.cat(parts) for parts in zip(*shared, strict=True))
    model = session.share(network(), owner=0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    losses = []
    for _ in range(EPOCHS):
        for batch in torch.randperm(2 * ROWS).split(BATCH):  # the same at all parties
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x[batch]), y[batch])
            loss.backward()
            optimizer.step()
        losses.append(float(session.reveal(loss.detach())))
    return losses, session.reveal(model, to=1)


if __name__ == "__main__":
    (losses, _), (_, model), _ = tacit.run(main)
    x, labels = (part[-TEST:] for part in digits())
    accuracy = (model(x).argmax(1) == labels).float().mean()
    print(f"losses {', '.join(f'{loss:.2f}' for loss in losses)}; {accuracy:.1%} of {TEST} right")
