"""Two hospitals train one model on the exports of their systems; a third party helps.

    python examples/11_two_hospitals/train.py

Party 0 has clinic.csv: semicolons, decimal commas, an encoding of Windows, German dates, an index
and a column of remarks. Party 1 has hospital.csv: commas, ISO dates, other names in another order.
Both miss cells. All parties declare what the columns hold, so that the rows of both mean the same.
The patients are made up. `tacit.run(main, report="run.html")` would show where the time goes.
"""

from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

import tacit
from tacit.tables import Category, Csv, Date, Number, Truth, column_names

FOLDER = Path(__file__).parent
KINDS = {
    "age": Number(missing="mean"),
    "sex": Category(["f", "m"], missing="indicator"),
    "crp": Number(missing="indicator"),
    "ward": Category(["A1", "B2", "C3"]),
    "admitted": Date(since="2025-10-01", formats=["%d.%m.%Y", "%Y-%m-%d"]),
    "smoker": Truth("ja", "nein"),
}
CLINIC = ["Alter", "Geschlecht", "CRP (mg/l)", "Station", "Aufnahme", "Raucher"]  # as KINDS


def load(session, owner, file, names, answer, csv=None):
    path = FOLDER / file if session.rank == owner else None
    columns = dict(zip(names, KINDS.values(), strict=True))
    x = session.load(path, owner, columns=columns, csv=csv)
    return x, session.load(path, owner, columns={answer: KINDS["smoker"]}, csv=csv)


def main(session: tacit.Session) -> tuple[list[float], float]:
    german = Csv(decimal=",", encoding="cp1252")
    clinic = load(session, 0, "clinic.csv", CLINIC, "wieder aufgenommen", german)
    hospital = load(session, 1, "hospital.csv", KINDS, "readmitted")
    x, y = (torch.cat(both).float() for both in zip(clinic, hospital, strict=True))
    x = (x - x.mean(0)) / x.std(0)
    model = session.share(nn.Linear(len(column_names(KINDS)), 1), owner=0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    losses = []
    for _ in range(12):
        optimizer.zero_grad()
        loss = F.binary_cross_entropy_with_logits(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(float(session.reveal(loss.detach())))
    right = ((model(x) > 0) == (y > 0.5)).float().mean()
    return losses, float(session.reveal(right.detach()))


if __name__ == "__main__":
    losses, right = tacit.run(main)[0]
    print(f"loss {losses[0]:.2f}, then {losses[-1]:.2f}; {right:.0%} of 210 patients right")
