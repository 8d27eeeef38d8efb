"""A hospital and a laboratory join their tables by patient and train on what both know.

    python examples/12_joined_tables.py

Party 0 has measurements of some patients, party 1 other measurements and the diagnosis of some, and
party 2 helps. Nobody learns which patients both have. All learn how many, and party 1 the model.
"""

import torch
from sklearn.datasets import load_breast_cancer
from torch import nn

import tacit

FIRST, SECOND = slice(0, 420), slice(150, 569)  # 270 patients are in both
EPOCHS, BATCH = 4, 30
Table = dict[str, object]


def table(rank: int) -> Table:
    """What a party has: an id for each patient, and numbers."""
    data = load_breast_cancer()
    x = torch.tensor(data.data).float()
    x = (x - x.mean(0)) / x.std(0)
    rows, columns = (FIRST, range(15)) if rank == 0 else (SECOND, range(15, 30))
    order = torch.randperm(rows.stop - rows.start, generator=torch.Generator().manual_seed(rank))
    found: Table = {f"x{i}": x[rows, i][order] for i in columns}
    if rank == 1:
        found["benign"] = data.target[rows][order]
    return {"patient": [f"P-{1000 + rows.start + int(i)}" for i in order], **found}


def main(session: tacit.Session) -> tuple[int, nn.Module | None]:
    own = [table(rank) if session.rank == rank else None for rank in (0, 1)]
    joined = session.join(*own, on="patient", size="reveal")
    x, y = joined[[f"x{i}" for i in range(30)]], joined["benign"]
    model = session.share(nn.Linear(30, 1), owner=0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(joined)).split(BATCH):  # the same at all parties
            optimizer.zero_grad()
            logits = model(x[rows]).squeeze(1)
            nn.functional.binary_cross_entropy_with_logits(logits, y[rows]).backward()
            optimizer.step()
    return len(joined), session.reveal(model, to=1)


if __name__ == "__main__":
    (count, _), (_, model), _ = tacit.run(main)
    data = load_breast_cancer()
    x = torch.tensor(data.data).float()
    right = (model((x - x.mean(0)) / x.std(0)).squeeze(1) > 0) == torch.tensor(data.target).bool()
    print(f"{count} patients in both tables; {int(right.sum())} of {len(right)} diagnoses right")
