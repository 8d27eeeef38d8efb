"""Two parties train and use a model on what both have; no third machine takes part.

    python examples/07_two_parties_alone.py

A laboratory has half of the measurements of each patient, a clinic the other half and diagnoses.
They train a logistic regression; the clinic learns what it says of new patients. With dealer="none"
the parties make everything themselves: slower than with a dealer, but nobody has to be trusted.
"""

import torch
from sklearn.datasets import load_breast_cancer
from torch import Tensor, nn

import tacit

LABORATORY, CLINIC = 0, 1
COLUMNS = {LABORATORY: slice(0, 15), CLINIC: slice(15, 30)}  # who has which measurements
TRAIN, TEST, EPOCHS, BATCH = 455, 114, 6, 65


def patients() -> tuple[Tensor, Tensor]:
    """Measurements, scaled, and diagnoses, in a public order."""
    data = load_breast_cancer()
    order = torch.randperm(TRAIN + TEST, generator=torch.Generator().manual_seed(0))
    x, y = torch.tensor(data.data).float()[order], torch.tensor(data.target).float()[order]
    return (x - x.mean(0)) / x.std(0), y.unsqueeze(1)


def trained(x: Tensor, y: Tensor, model: nn.Module) -> nn.Module:
    """The same for secrets and for plain tensors. Batches are public."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    for start in [*range(0, TRAIN, BATCH)] * EPOCHS:
        optimizer.zero_grad()
        scores, wanted = model(x[start : start + BATCH]), y[start : start + BATCH]
        nn.functional.binary_cross_entropy_with_logits(scores, wanted).backward()
        optimizer.step()
    return model


def main(session: tacit.Session) -> Tensor | None:
    """The program of both parties; only the owner of something has it."""
    (x, y), rank = patients(), session.rank
    shape = (TRAIN + TEST, 15)
    halves = [
        session.share(x[:, columns] if rank == owner else None, owner=owner, shape=shape)
        for owner, columns in COLUMNS.items()
    ]
    known = session.share(y[:TRAIN] if rank == CLINIC else None, owner=CLINIC, shape=(TRAIN, 1))
    both, model = torch.cat(halves, 1), session.share(nn.Linear(30, 1), owner=CLINIC)
    trained(both[:TRAIN], known, model)
    with torch.no_grad():
        return session.reveal(model(both[TRAIN:]) > 0, to=CLINIC)


if __name__ == "__main__":
    answers = tacit.run(main, parties=2, protocol="additive", dealer="none")[CLINIC]
    x, y = patients()
    plain = trained(x[:TRAIN], y[:TRAIN], nn.Linear(30, 1))(x[TRAIN:]) > 0
    right, as_plain = (int((found == (y[TRAIN:] > 0)).sum()) for found in (answers, plain))
    print(f"{right} of {TEST} diagnoses right, {as_plain} after a plain training")
