"""A linear SVM of two owners: a laboratory has the measurements, a clinic the diagnoses.

    python examples/classical/linear_svm.py

Hinge loss, a penalty on the weights and torch's SGD. All parties see the order of the batches; only
the clinic learns what the model says of new patients, and nobody learns the model.
"""

import torch
from sklearn.datasets import load_breast_cancer
from torch import Tensor, nn

import tacit

LABORATORY, CLINIC = 0, 1
TRAIN, TEST, EPOCHS, BATCH = 455, 114, 6, 65


def patients() -> tuple[Tensor, Tensor]:
    """Measurements, scaled, and diagnoses, 1 or -1, in a public order."""
    data = load_breast_cancer()
    order = torch.randperm(TRAIN + TEST, generator=torch.Generator().manual_seed(0))
    x, y = torch.tensor(data.data).float()[order], torch.tensor(data.target).float()[order]
    return (x - x.mean(0)) / x.std(0), 2 * y.unsqueeze(1) - 1


def trained(x: Tensor, y: Tensor, model: nn.Module) -> nn.Module:
    """The same for secrets and for plain tensors."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=0.01)
    for start in [*range(0, TRAIN, BATCH)] * EPOCHS:
        optimizer.zero_grad()
        margins = y[start : start + BATCH] * model(x[start : start + BATCH])
        torch.relu(1 - margins).mean().backward()
        optimizer.step()
    return model


def zeros() -> nn.Module:
    model = nn.Linear(30, 1)
    for parameter in model.parameters():
        nn.init.zeros_(parameter)
    return model


def main(session: tacit.Session) -> Tensor | None:
    x, y = patients()
    secret = session.share(x, owner=LABORATORY)
    known = session.share(y[:TRAIN], owner=CLINIC)
    model = trained(secret[:TRAIN], known, session.share(zeros(), owner=CLINIC))
    with torch.no_grad():
        return session.reveal(model(secret[TRAIN:]) > 0, to=CLINIC)


if __name__ == "__main__":
    answers = tacit.run(main)[CLINIC]
    x, y = patients()
    plain = trained(x[:TRAIN], y[:TRAIN], zeros())(x[TRAIN:]) > 0
    right, same = int((answers == (y[TRAIN:] > 0)).sum()), int((answers == plain).sum())
    print(f"{right} of {TEST} diagnoses right, {same} of {TEST} as after a plain training")
