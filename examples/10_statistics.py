"""Two clinics compare treatments and fit a model on the patients of both, unseen.

    python examples/10_statistics.py

Party 0 and party 1 have patients, party 2 helps. What all learn: the mean outcome of each treatment
that at least 20 patients had, and a regression with standard errors.
"""

import torch
from sklearn.datasets import load_diabetes
from torch import Tensor

import tacit
from tacit import stats

ROWS, TREATMENTS = 221, 4  # ROWS for each clinic
Table = tuple[Tensor, Tensor, Tensor]


def patients(rank: int) -> Table:
    """Body mass and blood pressure, how far the disease got in a year, and the treatment."""
    data = load_diabetes(scaled=False)
    rows = slice(rank * ROWS, (rank + 1) * ROWS)
    x, outcome = torch.tensor(data.data[rows, 2:4]), torch.tensor(data.target[rows])
    treatment = torch.bucketize(torch.arange(ROWS), torch.tensor([100, 180, 214]))  # few the last
    return x.float(), outcome.float(), treatment


def form() -> Table:
    return torch.empty(ROWS, 2), torch.empty(ROWS), torch.empty(ROWS, dtype=torch.int64)


def main(session: tacit.Session) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    shared = [
        session.share(patients(owner) if session.rank == owner else form(), owner)
        for owner in (0, 1)
    ]
    x, outcome, treatment = (torch.cat(parts) for parts in zip(*shared, strict=True))
    groups = stats.group_sums(outcome / 100, treatment, TREATMENTS, min_size=20)
    fit = stats.linear_regression(x, outcome)
    return session.reveal((*groups, fit.coefficients, fit.coefficient_errors))


if __name__ == "__main__":
    sums, counts, coefficients, errors = tacit.run(main)[0]
    for number, (total, count) in enumerate(zip(sums.tolist(), counts.tolist(), strict=True)):
        text = f"mean outcome {100 * total / count:.0f} of {count}" if count else "too few patients"
        print(f"treatment {number}: {text}")
    for name, value, error in zip(("mass", "pressure"), coefficients, errors, strict=True):
        print(f"{name}: {value:.3f} +- {error:.3f}")
