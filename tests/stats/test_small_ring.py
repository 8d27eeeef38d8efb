"""Statistics in a ring of 32 bits: near those of plain tensors, or refused."""

import numpy as np
import pytest
import torch
from tests.tensor.comparison import on_secrets

from tacit import metrics, stats
from tacit.errors import PartyFailed

UNITS = 16  # the error that is allowed, in units of the last fraction bit
SEED = 3


def drawn(rows):
    """Columns, a number and labels that depend on them, other labels, probabilities."""
    r = np.random.default_rng(SEED)
    x = torch.tensor(r.normal(size=(rows, 3)))
    y = x @ torch.tensor([1.0, -0.5, 0.2]).double() + torch.tensor(r.normal(size=rows)) / 2
    guess = (y + torch.tensor(r.normal(size=rows)) / 3 > 0).long()
    return x, y, (y > 0).long(), guess, torch.sigmoid(y).clamp(0.05, 0.95)


FUNCTIONS = {
    "accuracy": lambda x, y, a, b, p: metrics.accuracy(a, b),
    "confusion_matrix": lambda x, y, a, b, p: metrics.confusion_matrix(a, b, 2),
    "log_loss": lambda x, y, a, b, p: metrics.log_loss(a, p),
    "r2": lambda x, y, a, b, p: metrics.r2(y, x[:, 0]),
    "quantiles": lambda x, y, a, b, p: stats.quantiles(x, [0.25, 0.5]),
    "group_sums": lambda x, y, a, b, p: stats.group_sums(y, a, 2, min_size=2),
    "cholesky": lambda x, y, a, b, p: stats.cholesky(x[:3].mT @ x[:3] / 3 + torch.eye(3)),
    "solve": lambda x, y, a, b, p: stats.solve(x[:3] + 3 * torch.eye(3), y[:3]),
    "pca": lambda x, y, a, b, p: stats.pca(x, 2).variances,
}
# Those that sum over standardised rows.
SUMMING = {
    "roc_auc": lambda x, y, a, b, p: metrics.roc_auc(a, y),
    "correlation": lambda x, y, a, b, p: stats.correlation(x),
    "linear_regression": lambda x, y, a, b, p: stats.linear_regression(x, y),
    "logistic_regression": lambda x, y, a, b, p: stats.logistic_regression(
        x, a, penalty=0.1, steps=5
    ),
    "k_means": lambda x, y, a, b, p: stats.k_means(x, x[:2], steps=3).centres,
}


def listed(result):
    return [result] if isinstance(result, torch.Tensor) else list(result)


@pytest.mark.parametrize(("fraction_bits", "rows"), [(8, 60), (12, 30)])
@pytest.mark.parametrize("name", [*FUNCTIONS, *SUMMING])
def test_results_are_near_those_in_plain(name, fraction_bits, rows):
    function, inputs = (FUNCTIONS | SUMMING)[name], drawn(rows)
    found = on_secrets(function, *inputs, ring=32, fraction_bits=fraction_bits)
    for one, want in zip(listed(found), listed(function(*inputs)), strict=True):
        error = float((one.double() - want.double()).abs().max())
        assert error <= UNITS * 2.0**-fraction_bits, (SEED, error)


@pytest.mark.parametrize("name", SUMMING)
def test_rows_whose_sums_leave_the_range_are_refused(name):
    with pytest.raises(PartyFailed, match=f"{name}: 33 rows.*2\\^5.*ring=64") as caught:
        on_secrets(SUMMING[name], *drawn(33), ring=32, fraction_bits=12)
    assert caught.value.kind == "RangeError"
