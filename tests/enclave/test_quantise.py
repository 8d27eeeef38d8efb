"""Quantising: against a slow reference in exact fractions, and statistics of the rounding."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from math import floor, isnan, log2

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.tiers import FULL, draws

from tacit import kernels
from tacit.enclave.trusted.quantise import PRECISIONS, dequantise, find_precision
from tacit.errors import ConfigError, RangeError
from tacit.kernels.quantisation import quantise8

KEY = bytes(16)
SWALP, FIXED = PRECISIONS["swalp"], PRECISIONS["fixed"]
floats = st.floats(width=32, allow_nan=False, allow_infinity=False)


rounded = partial(quantise8, key=KEY, operation=1)


def quantised(precision, x):
    return precision.quantise(x, float(x.abs().max()), rounded)


def fractions(count: int) -> list[int]:
    """The random fractions of so many elements, in units of 2^-16."""
    words = torch.empty(-(-count // 2), dtype=torch.int32)
    halves = kernels.stream(KEY, words, operation=1).view(torch.int16)
    return (halves[:count].int() & 0xFFFF).tolist()


def power(exponent: int) -> Fraction:
    return Fraction(2) ** exponent


def reference(values: list[float], bits: int, words: list[int] | None) -> tuple[list[int], int]:
    """SWALP as protocols describe it, one number after the other; nearest without words."""
    most = max(abs(Fraction(x)) for x in values)
    exponent = 0
    while most and power(exponent + 1) <= most:
        exponent += 1
    while most and power(exponent) > most:
        exponent -= 1
    found = []
    for i, x in enumerate(values):
        y = Fraction(x) * power(bits - 2 - exponent)
        if words is None:
            found.append(round(y))
            continue
        up = Fraction(2 * words[i] + 1, 1 << 17) < y - floor(y)
        found.append(min(max(floor(y) + up, -(1 << bits - 1)), (1 << bits - 1) - 1))
    return found, exponent - bits + 2


@draws(300)
@given(st.lists(floats, min_size=1, max_size=20))
def test_against_the_reference(values):
    x = torch.tensor(values, dtype=torch.float32)
    for precision, used in ((SWALP, fractions(len(x))), (FIXED, None)):
        found, exponent = quantised(precision, x)
        assert found.dtype == precision.dtype
        assert (found.tolist(), exponent) == reference(x.tolist(), precision.bits, used)
        assert found.long().abs().max() <= 1 << (precision.bits - 1)


@draws(100)
@given(st.lists(floats, min_size=1, max_size=20))
def test_the_error_is_below_one_unit(values):
    x = torch.tensor(values, dtype=torch.float64)
    for precision, error in ((SWALP, 1), (FIXED, Fraction(1, 2))):
        found, exponent = quantised(precision, x)
        for q, value in zip(found.tolist(), values, strict=True):
            assert abs(q - Fraction(value) * power(-exponent)) <= error


def test_rounding_is_right_on_average():
    """The mean of n roundings of one number: within 6 standard deviations."""
    n = 1_000_000 if FULL else 100_000
    for fraction in (0.0, 2**-10, 0.25, 0.5, 0.7, 1 - 2**-10):
        for whole in (-100, -3, 0, 90):
            x = torch.full((n,), whole + fraction)
            x[0] = 127.0
            q = quantised(SWALP, x).values[1:].double()
            deviation = (fraction * (1 - fraction) / n) ** 0.5
            assert abs(float(q.mean()) - whole - fraction) <= 6 * deviation + 2**-17
            assert set(q.unique().tolist()) <= {float(whole), whole + 1.0}


def test_roundings_of_neighbours_are_independent():
    n = 100_000
    x = torch.full((n,), 0.5)
    x[0] = 127.0
    bits = quantised(SWALP, x).values[1:].double() - 0.5
    for distance in (1, 2, 4, 16):
        assert abs(float((bits[distance:] * bits[:-distance]).mean())) < 6 * 0.25 / n**0.5


def test_zeros():
    for precision in (SWALP, FIXED):
        found, exponent = quantised(precision, torch.zeros(3, 4))
        assert not found.any()
        assert not dequantise(found, exponent, torch.float32).any()


@pytest.mark.parametrize("value", [2.0**-149, 2.0**-126, 3e38, -(2.0**127), 1e-30])
def test_the_ends_of_float32(value):
    x = torch.tensor([value, value / 2])
    for precision in (SWALP, FIXED):
        found, exponent = quantised(precision, x)
        back = dequantise(found, exponent, torch.float32)
        assert abs(float(back[0]) - value) <= abs(value) * 2.0 ** (2 - precision.bits)
        assert exponent == floor(log2(abs(value))) - precision.bits + 2


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_numbers_that_are_not_finite_are_refused(value):
    x = torch.ones(5)
    x[3] = value
    for precision in (SWALP, FIXED):
        with pytest.raises(RangeError) as caught:
            quantised(precision, x)
        assert caught.value.number == ("NaN" if isnan(value) else "infinite")


def test_strides_do_not_matter():
    x = torch.randn(4, 6)
    found, wanted = (quantised(SWALP, one) for one in (x.T.contiguous().T, x))
    assert torch.equal(found.values, wanted.values)


def test_sums_of_products_stay_below_the_bound():
    assert SWALP.most_terms == 131071
    assert FIXED.most_terms == 262143
    for precision in (SWALP, FIXED):
        assert precision.most_terms << 2 * (precision.bits - 1) < precision.bound
        assert precision.bound <= 1 << (precision.ring.bits - 1)


def test_an_unknown_precision_is_refused():
    with pytest.raises(ConfigError, match="allowed are swalp, goten, fixed"):
        find_precision("int4")
