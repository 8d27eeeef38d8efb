"""What all three run: alice has measurements of tumours, bob the diagnoses, and dora deals.

    tacit run --party alice --parties parties.toml job.py
    tacit dealer --parties parties.toml job.py

Alice and bob learn how often the model is right, and alice the model. Dora learns nothing: what is
revealed to the parties is NaN there.
"""

import torch
from sklearn.datasets import load_breast_cancer
from torch import Tensor, nn

import tacit

ROWS, TEST, STEPS = 569, 169, 30


def measurements() -> Tensor:
    """What alice has: 30 columns, each with mean 0 and deviation 1."""
    x = torch.tensor(load_breast_cancer().data).float()
    return (x - x.mean(0)) / x.std(0)


def diagnoses() -> Tensor:
    """What bob has: 1 for benign, 0 for malignant."""
    return torch.tensor(load_breast_cancer().target).float()


def main(session: tacit.Session) -> None:
    x = session.share(
        measurements() if session.name == "alice" else None, owner="alice", shape=(ROWS, 30)
    )
    y = session.share(diagnoses() if session.name == "bob" else None, owner="bob", shape=(ROWS,))
    model = session.share(nn.Linear(30, 1), owner="alice")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    for _ in range(STEPS):
        optimizer.zero_grad()
        scores = model(x[TEST:]).squeeze(1)
        nn.functional.binary_cross_entropy_with_logits(scores, y[TEST:]).backward()
        optimizer.step()
    with torch.no_grad():
        is_right = model(x[:TEST]).squeeze(1) * (2 * y[:TEST] - 1) > 0
        right = session.reveal(is_right.sum())
    trained = session.reveal(model, to="alice")
    if not session.is_dealer:
        what = "and has the model" if trained is not None else "and has no model"
        print(f"{session.name}: {int(right)} of {TEST} tumours are right, {what}")
