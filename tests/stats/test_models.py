"""Regressions, clusters and components against scipy and scikit-learn."""

import numpy as np
import pytest
import torch
from scipy import optimize
from scipy import stats as scipy_stats
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from tests.stats.references import BOTH, TRIO, compare

from tacit import stats


def ordinary_least_squares(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, ...]:
    """Coefficients, intercept, their standard errors, and R^2, by the textbook."""
    rows, size = x.shape
    design = np.column_stack([x, np.ones(rows)])
    found, *_ = np.linalg.lstsq(design, y)
    residual = y - design @ found
    noise = residual @ residual / (rows - size - 1)
    errors = np.sqrt(noise * np.diag(np.linalg.inv(design.T @ design)))
    r2 = 1 - residual.var() / y.var()
    return found[:-1], found[-1], errors[:-1], errors[-1], r2


def problem(rows: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
    r = np.random.default_rng(rows)
    x = r.normal(size=(rows, columns)) @ (np.eye(columns) + 0.3 * r.normal(size=(columns, columns)))
    x = x * np.linspace(0.5, 20, columns) + r.normal(size=columns) * 3
    y = x @ (r.normal(size=columns) / np.linspace(0.5, 20, columns)) + r.normal(size=rows) + 2
    return x, y


@BOTH
def test_linear_regression(settings):
    x, y = problem(120, 3)
    wanted = ordinary_least_squares(x, y)
    compare(stats.linear_regression, wanted, x, y, error=2**-10, settings=settings)


def test_one_column_as_scipy():
    x, y = problem(50, 1)
    found = stats.linear_regression(torch.tensor(x), torch.tensor(y))
    line = scipy_stats.linregress(x[:, 0], y)
    assert float(found.coefficients) == pytest.approx(line.slope)
    assert float(found.coefficient_errors) == pytest.approx(line.stderr)
    assert float(found.intercept_error) == pytest.approx(line.intercept_stderr)
    assert float(found.r2) == pytest.approx(line.rvalue**2)


def most_likely(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, ...]:
    """Coefficients and intercept by scipy's minimiser, and errors by its Hessian."""
    design = np.column_stack([x, np.ones(len(x))])

    def loss(w: np.ndarray) -> float:
        scores = design @ w
        return float(np.sum(np.logaddexp(0, scores) - y * scores))

    def slope(w: np.ndarray) -> np.ndarray:
        return design.T @ (1 / (1 + np.exp(-design @ w)) - y)

    found = optimize.minimize(loss, np.zeros(design.shape[1]), jac=slope, tol=1e-12).x
    p = 1 / (1 + np.exp(-design @ found))
    errors = np.sqrt(np.diag(np.linalg.inv(design.T @ (design * (p * (1 - p))[:, None]))))
    return found[:-1], found[-1], errors[:-1], errors[-1]


@BOTH
def test_logistic_regression(settings):
    x, _ = problem(150, 2)
    r = np.random.default_rng(0)
    scores = (x - x.mean(0)) / x.std(0) @ np.array([1.5, -1.0]) - 0.5
    y = (r.random(150) < 1 / (1 + np.exp(-scores))).astype(np.int64)
    wanted = most_likely(x, y)

    def program(a, b):
        return stats.logistic_regression(a, b, steps=6)

    compare(program, wanted, x, y, error=2**-9, plain_error=1e-5, settings=settings)


def test_penalties_as_those_of_scikit_learn():
    """On standardised columns C = 1 / (n penalty)."""
    x, _ = problem(100, 3)
    x = (x - x.mean(0)) / x.std(0)
    y = (x[:, 0] + x[:, 1] > 0).astype(np.int64)  # classes that can be separated
    model = LogisticRegression(C=1 / (100 * 0.1), tol=1e-10, max_iter=1000).fit(x, y)

    def program(a, b):
        fit = stats.logistic_regression(a, b, penalty=0.1)
        return fit.coefficients, fit.intercept

    wanted = (model.coef_[0], model.intercept_[0])
    compare(program, wanted, x, y, error=2**-8, plain_error=1e-6)


@BOTH
def test_k_means(settings):
    r = np.random.default_rng(6)
    x = np.concatenate([r.normal(size=(20, 2)) + c for c in ([0, 0], [6, 1], [-2, 7])])
    start = np.stack([x[0], x[1], [50.0, 50.0], x[-1]])  # the third gets no row
    wanted = lloyd(x, start, 5)

    def program(a, b):
        return stats.k_means(a, b, steps=5)

    compare(program, wanted, x, start, error=(2**-9, 0), settings=settings)


def lloyd(x: np.ndarray, centres: np.ndarray, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Centres and labels, step by step, by distances; a centre without rows stays."""
    for _ in range(steps):
        labels = np.linalg.norm(x[:, None] - centres, axis=2).argmin(1)
        rows = [x[labels == k] for k in range(len(centres))]
        centres = np.stack([r.mean(0) if len(r) else c for r, c in zip(rows, centres, strict=True)])
    return centres, np.linalg.norm(x[:, None] - centres, axis=2).argmin(1)


def test_k_means_as_scikit_learn():
    r = np.random.default_rng(7)
    x = np.concatenate([r.normal(size=(30, 3)) + c for c in (-4, 0, 4)])
    start = x[[0, 1, 89]]
    model = KMeans(3, init=start, n_init=1, max_iter=20, tol=0).fit(x)

    def program(a, b):
        return stats.k_means(a, b, steps=10)

    wanted = (model.cluster_centers_, model.labels_)
    compare(program, wanted, x, start, error=(2**-9, 0), plain_error=1e-6)


@pytest.mark.parametrize(("settings", "columns"), [({}, 5), (TRIO, 2)], ids=["cleartext", "trio"])
def test_principal_components(settings, columns):
    x = problem(100, columns)[0]
    x = x / x.std(0) * np.linspace(1, 4, columns)
    model = PCA(2).fit(x)
    wanted = (model.components_, model.explained_variance_, model.mean_)

    def program(a):
        return stats.pca(a, 2, sweeps=6 if columns > 2 else 1)

    compare(program, wanted, x, error=2**-8, settings=settings)
