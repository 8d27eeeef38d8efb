"""A hospital and a laboratory join their exports by patient and train on what both know.

    tacit check examples/12_joined_tables/job.py    rehearses it: what would go wrong, what it costs
    tacit local examples/12_joined_tables/job.py    runs all parties on this machine; with
        --report report.html it writes a page that shows where time, rounds and bytes went

Party 0 has hospital.csv: semicolons, an encoding of Windows, words for what is yes, and whether a
patient came back. Party 1 has laboratory.csv, in another order, of other patients too. Party 2
helps. Nobody learns which patients both have. All learn how many, how many answers are right, and
the weights of the model. The patients are made up.
"""

from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

import tacit
from tacit.tables import Category, Csv, Date, Number, Truth, column_names

FOLDER = Path(__file__).parent
FILES = {0: "hospital.csv", 1: "laboratory.csv"}
GERMAN = Csv(encoding="cp1252")  # at the hospital
KINDS = {
    "Alter": Number(missing="mean"),
    "Geschlecht": Category(["f", "m"], renamed={"weiblich": "f", "männlich": "m"}),
    "Raucher": Truth("ja", "nein"),
    "wieder aufgenommen": Truth("ja", "nein"),
    "hb": Number(missing="mean"),
    "crp": Number(),
    "taken": Date(since="2026-01-01"),
}
ANSWER = "wieder aufgenommen"
FEATURES = [name for name in column_names(KINDS) if name != ANSWER]
EPOCHS, BATCH = 8, 35


def main(session: tacit.Session) -> str:
    left, right = (FOLDER / file if session.rank == i else None for i, file in FILES.items())
    csv = GERMAN if session.rank == 0 else None
    joined = session.join(left, right, on="patient", size="reveal", columns=KINDS, csv=csv)
    x, y = joined[FEATURES], joined[ANSWER]
    x = (x - x.mean(0)) / x.std(0)
    model = session.share(nn.Linear(len(FEATURES), 1), owner=0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    for _ in range(EPOCHS):
        for rows in torch.arange(len(joined)).split(BATCH):
            optimizer.zero_grad()
            F.binary_cross_entropy_with_logits(model(x[rows]).squeeze(1), y[rows]).backward()
            optimizer.step()
    right_answers = ((model(x).squeeze(1) > 0) == (y > 0.5)).float().sum()
    count = round(float(session.reveal(right_answers.detach())))
    weights = session.reveal(model.weight.detach())[0].tolist()
    largest = max(zip(weights, FEATURES, strict=True), key=lambda one: abs(one[0]))[1]
    return f"{count} of {len(joined)} patients right; {largest} weighs most"
