"""Alice has pictures of digits, bob has what they show; they train a network that nobody sees.

Bob alone learns the losses. A file `broken` at a party makes its program raise.
"""

from pathlib import Path

import torch
from digits import network

import tacit

BATCH = 32


def main(session: tacit.Session, total: str) -> int:
    torch.manual_seed(1)
    model = session.share(network(), owner="alice")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5)
    x = session.load("pictures.npy", owner="alice", shape=(None, 64))
    y = session.load("labels.npy", owner="bob", shape=(None, 10))
    training = session.training(model, optimizer, every=2)
    for step in training.steps(int(total)):
        if Path("broken").exists():
            raise LookupError("no picture of patient 4711")
        rows = (torch.arange(BATCH) + step * BATCH) % len(x)
        optimizer.zero_grad()
        loss = (model(x[rows]) - y[rows]).square().sum(1).mean()
        loss.backward()
        optimizer.step()
        training.log(loss=session.reveal(loss, to="bob"))
    return training.step
