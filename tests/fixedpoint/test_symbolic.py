"""Symbolic numbers: what is computed of them is computed anew, and what was decided must hold."""

from __future__ import annotations

from math import floor

import pytest
import torch

from tacit.fixedpoint.symbolic import Computations, SymbolicNumber, exponent
from tacit.ring import RING64

NUMBERS = [0.3, 0.1, 0.25, 7.5, 100.0, 1e-6]


def formula(x):
    """Factors as optimizers and rules compute them."""
    return -(1 - 0.9 / (x + 2) ** 0.5) * abs(x - 0.2)


@pytest.mark.parametrize("number", NUMBERS)
def test_results_are_those_of_the_new_number(number):
    computations = Computations()
    x = computations.input(0.5)
    results = [formula(x), round(x * 2**20), floor(3 / x), RING64.wrap(round(-x * 2.0**40) << 30)]
    assert computations.update([number])
    wanted = [formula(number), round(number * 2**20), floor(3 / number)]
    wanted.append(RING64.wrap(round(-number * 2.0**40) << 30))
    assert [one.value for one in results] == wanted


def test_an_element_is_overwritten():
    computations = Computations()
    factor = round(computations.input(0.5) * 2.0**16)
    words = torch.tensor([3, -5])
    element = computations.element(factor, torch.int64)
    product = words * factor
    assert product.tolist() == [3 << 15, -5 << 15]
    assert computations.update([0.25])
    assert (words * element).tolist() == [3 << 14, -5 << 14]
    assert computations.element(factor, torch.int64).data_ptr() == element.data_ptr()


@pytest.mark.parametrize(
    ("decide", "same", "other"),
    [
        (lambda x: x < 1, 0.9, 1.0),
        (lambda x: 1.0 in (x, -x), 0.9, 1.0),
        (lambda x: max(x, 1.0), 0.9, 1.5),
        (exponent, 0.9, 0.4),
        (float, 0.7, 0.71),
        (bool, 0.1, 0.0),
        (lambda x: round(x * 100).bit_length(), 0.75, 0.3),
        (lambda x: torch.ones(2) * x, 0.7, 0.71),
    ],
)
def test_a_number_that_would_decide_differently_does_not_fit(decide, same, other):
    computations = Computations()
    x = computations.input(0.7)
    decide(x)
    double = x * 2
    assert computations.update([same])
    assert not computations.update([other])
    assert double.value == 2 * same


def test_a_number_for_which_a_result_does_not_exist_does_not_fit():
    computations = Computations()
    inverse = 1 / computations.input(0.5)
    assert not computations.update([0.0])
    assert isinstance(inverse, SymbolicNumber)
    assert inverse.value == 2
