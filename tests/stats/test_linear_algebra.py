"""Small systems and eigenvalues against numpy."""

import numpy as np
import pytest
import torch
from tests.stats.references import BOTH, TRIO, compare

from tacit import stats
from tacit.stats.eigenvalues import tournament


def correlated(size: int, seed: int = 0) -> np.ndarray:
    """A correlation matrix with a condition number of some 50."""
    r = np.random.default_rng(seed)
    x = r.normal(size=(40, size)) + 1.5 * r.normal(size=(40, 1))
    return np.corrcoef(x, rowvar=False)


@BOTH
def test_cholesky_factors(settings):
    a = correlated(4)
    compare(stats.cholesky, np.linalg.cholesky(a), a, settings=settings)


def test_batches_of_factors_and_inverses():
    a = np.stack([correlated(3, seed) for seed in range(4)])
    compare(stats.cholesky, np.linalg.cholesky(a), a)
    compare(stats.inverse, np.linalg.inv(a), a, error=2**-10)


@BOTH
def test_inverses(settings):
    a = correlated(5)
    compare(stats.inverse, np.linalg.inv(a), a, error=2**-10, settings=settings)


@BOTH
def test_systems_that_need_pivoting(settings):
    """Zeros on the diagonal: elimination in a fixed order would divide by zero."""
    a = np.array([[0.0, 2.0, 1.0], [1.0, 0.0, 3.0], [4.0, -1.0, 0.0]])
    b = np.array([[1.0, -2.0], [0.5, 3.0], [7.0, 1.0]])
    compare(stats.solve, np.linalg.solve(a, b), a, b, settings=settings)
    compare(stats.solve, np.linalg.solve(a, b[:, 0]), a, b[:, 0].copy(), settings=settings)


def test_least_squares():
    r = np.random.default_rng(4)
    a, b = r.normal(size=(30, 4)) * 3, r.normal(size=30)
    compare(stats.solve, np.linalg.lstsq(a, b)[0], a, b)


def test_batches_of_systems():
    r = np.random.default_rng(5)
    a, b = r.normal(size=(3, 4, 4)) + 3 * np.eye(4), r.normal(size=(3, 4, 1))
    compare(stats.solve, np.linalg.solve(a, b), a, b)


@pytest.mark.parametrize("size", [2, 4, 8])
def test_every_two_meet_once(size):
    pairs = [
        pair
        for first, second in tournament(size)
        for pair in zip(first.tolist(), second.tolist(), strict=True)
    ]
    assert sorted(pairs) == [(i, j) for i in range(size) for j in range(i + 1, size)]


def symmetric(values: list[float], seed: int = 0) -> np.ndarray:
    q, _ = np.linalg.qr(np.random.default_rng(seed).normal(size=(len(values), len(values))))
    return q @ np.diag(values) @ q.T


SPECTRA = {
    "ordinary": [-3.0, -1.0, 0.5, 2.0, 7.0],
    "repeated": [1.0, 1.0, 1.0, 4.0],
    "large": [20.0, 300.0, 1500.0],
    "zero": [0.0, 0.0],
    "one": [2.5],
}


@pytest.mark.parametrize("name", SPECTRA)
def test_eigenvalues_and_eigenvectors(name):
    """The vectors are orthonormal and make the matrix diagonal, whatever basis they are."""
    values = sorted(SPECTRA[name])
    a = symmetric(values, seed=len(values))
    largest = max(1.0, abs(a).max())

    def program(x):
        found, vectors = stats.eigh(x)
        return found, vectors.mT @ vectors, (vectors * found) @ vectors.mT

    errors = (2**-11 * largest, 2**-11, 2**-10 * largest)
    compare(program, (values, np.eye(len(a)), a), a, error=errors)


def test_many_eigenvalues_of_a_plain_matrix():
    a = torch.tensor(symmetric([1.0, 1.0, *range(2, 17)]))
    found, vectors = stats.eigh(a)
    torch.testing.assert_close(found, torch.linalg.eigvalsh(a), atol=1e-9, rtol=0)
    torch.testing.assert_close(vectors @ torch.diag(found) @ vectors.mT, a, atol=1e-9, rtol=0)


def test_eigenvalues_by_three_parties():
    values = [1.0, 4.0]
    compare(lambda x: stats.eigh(x, sweeps=1)[0], values, symmetric(values), settings=TRIO)
