"""Statistics and metrics on secrets, beside the same function of plain tensors.

`trio`, three threads, 64 bits and 16 fraction bits; a table of 500 rows. The rounds do not depend
on the machine; a note has them, the bytes of all parties and the largest error of a result.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from benchmarks.measure import Row, interleaved, one_thread
from torch import Tensor

import tacit
from tacit import metrics, stats

ROWS, COLUMNS, GROUPS = 500, 4, 5
EDGES = [-2.0, -1.0, 0.0, 1.0, 2.0]


class Table(NamedTuple):
    """Columns of numbers, a number and a label that depend on them, a group, a probability."""

    x: Tensor
    y: Tensor
    labels: Tensor
    groups: Tensor
    likely: Tensor


def table(rows: int = ROWS) -> Table:
    drawn = torch.Generator().manual_seed(5)
    x = torch.randn(rows, COLUMNS, generator=drawn)
    y = x @ torch.tensor([1.0, -0.5, 0.25, 0.0]) + 0.5 * torch.randn(rows, generator=drawn)
    labels = (y + 0.5 * torch.randn(rows, generator=drawn) > 0).long()
    groups = torch.randint(0, GROUPS, (rows,), generator=drawn)
    return Table(x, y, labels, groups, torch.sigmoid(2 * y).clamp(0.01, 0.99))


CASES: dict[str, Callable[[Table], Any]] = {
    "accuracy": lambda t: metrics.accuracy(t.labels, t.y > 0),
    "confusion matrix": lambda t: metrics.confusion_matrix(t.labels, t.groups, GROUPS),
    "AUC": lambda t: metrics.roc_auc(t.labels, t.y),
    "log loss": lambda t: metrics.log_loss(t.labels, t.likely),
    "R2": lambda t: metrics.r2(t.y, t.x[:, 0]),
    "histogram": lambda t: stats.histogram(t.y, torch.tensor(EDGES)),
    "quantiles": lambda t: stats.quantiles(t.y, [0.25, 0.5, 0.75]),
    "correlation": lambda t: stats.correlation(t.x),
    "sums by group": lambda t: stats.group_sums(t.y, t.groups, GROUPS, min_size=10).sums,
    "linear regression": lambda t: stats.linear_regression(t.x, t.y)[:4],
    "logistic regression": lambda t: stats.logistic_regression(t.x, t.labels, steps=5),
    "k-means, 5 steps": lambda t: stats.k_means(t.x, t.x[:3], steps=5).centres,
    "PCA": lambda t: stats.pca(t.x, 2).variances,
}


class Measured(NamedTuple):
    """Seconds, rounds and bytes of a function at one party, and its result."""

    seconds: float
    rounds: int
    bytes_sent: int
    result: list[Tensor]


def party(session: tacit.Session, name: str, plain: Table) -> Measured:
    secret = Table(*(session.share(x, owner=0) for x in plain))
    begin = time.perf_counter()
    with session.stats.scope(name) as cost:
        found = CASES[name](secret)
    found = [found] if isinstance(found, Tensor) else list(found)
    result = [session.reveal(x) for x in found]
    return Measured(time.perf_counter() - begin, cost.rounds, cost.bytes_sent, result)


def row(name: str, plain: Table) -> Row:
    right = CASES[name](plain)
    right = [right] if isinstance(right, Tensor) else list(right)
    runs = [tacit.run(party, name, plain) for _ in range(2)]
    parties = runs[-1]  # the first one imports and compiles
    error = max(
        float((found.double() - one.double()).abs().max())
        for found, one in zip(parties[0].result, right, strict=True)
    )
    in_plain = interleaved({"plain": lambda: CASES[name](plain)}, repetitions=3)["plain"]
    sent = sum(one.bytes_sent for one in parties)
    return Row(
        name=name,
        value=max(one.seconds for one in parties),
        unit="s",
        baseline="in plain",
        baseline_value=in_plain,
        lower_is_better=True,
        note=f"{max(one.rounds for one in parties)} rounds, {sent / 1e6:.2f} MB; "
        f"largest error {error:.1e}",
    )


def rows(count: int = ROWS) -> list[Row]:
    plain = table(count)
    with one_thread():
        return [row(name, plain) for name in CASES]
