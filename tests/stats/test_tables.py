"""Columns and groups against numpy and scipy."""

import numpy as np
import pytest
import torch
from tests.stats.references import BOTH, compare
from tests.tensor.comparison import on_secrets

from tacit import stats
from tacit.errors import ConfigError


def table(rows: int, columns: int, seed: int = 0) -> np.ndarray:
    """Correlated columns of different scales."""
    r = np.random.default_rng(seed)
    mixed = r.normal(size=(rows, columns)) @ (np.eye(columns) + r.normal(size=(columns, columns)))
    return mixed * np.logspace(-1, 2, columns) + r.normal(size=columns) * 5


@BOTH
def test_correlations(settings):
    x = table(200, 4)
    compare(stats.correlation, np.corrcoef(x, rowvar=False), x, settings=settings)


@BOTH
def test_histograms(settings):
    x = np.round(np.random.default_rng(1).normal(size=(20, 5)), 1)
    edges = np.array([-2.0, -0.5, 0.0, 0.5, 1.5, 2.5])
    x[0, :3] = edges[0], edges[2], edges[-1]  # what lies on an edge
    wanted = np.histogram(x, edges)[0]
    compare(stats.histogram, wanted, x, edges, error=0, settings=settings)
    on_public_edges = on_secrets(lambda a: stats.histogram(a, torch.tensor(edges)), torch.tensor(x))
    assert on_public_edges.tolist() == wanted.tolist()


@BOTH
@pytest.mark.parametrize("shape", [(11,), (12, 2), (1, 3)])
def test_quantiles(settings, shape):
    x = np.random.default_rng(2).normal(size=shape) * 10
    q = [0.0, 0.1, 0.5, 0.77, 1.0]
    wanted = np.quantile(x, q, axis=0)
    compare(lambda a: stats.quantiles(a, q), wanted, x, error=2**-13, settings=settings)


def test_quantiles_outside_are_refused():
    with pytest.raises(ConfigError, match="from 0 to 1"):
        stats.quantiles(torch.zeros(3), [0.5, 1.1])


@BOTH
@pytest.mark.parametrize("columns", [None, 2])
def test_sums_by_group(settings, columns):
    r = np.random.default_rng(3)
    groups = r.choice(5, 40, p=[0.4, 0.3, 0.25, 0.05, 0.0])
    groups[0] = 9  # counts nowhere
    values = r.normal(size=40 if columns is None else (40, columns)) * 100
    sums = np.stack([values[groups == g].sum(0) for g in range(5)])
    counts = np.array([(groups == g).sum() for g in range(5)])
    small = counts < 4
    assert counts[small].sum() > 0
    sums[small], counts[small] = 0, 0

    def program(x, g):
        return stats.group_sums(x, g, 5, min_size=4)

    compare(program, (sums, counts), values, groups, error=(2**-10, 0), settings=settings)


def test_a_group_of_nobody_may_be_asked_for_by_nobody():
    with pytest.raises(ConfigError, match="min_size"):
        stats.group_sums(torch.zeros(3), torch.zeros(3), 2, min_size=0)
