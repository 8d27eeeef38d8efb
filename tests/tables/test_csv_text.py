"""Numbers as csv files spell them, and what the others are called."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tiers import draws

from tacit.errors import ConfigError
from tacit.tables import CellRejected, Csv
from tacit.tables.csv_text import MISSING_WORDS, described, is_missing

GERMAN = Csv(decimal=",", thousands=".")


@pytest.mark.parametrize(
    ("csv", "cell", "number"),
    [
        (Csv(), "1e3", 1000.0),
        (Csv(), " -2.5 ", -2.5),
        (Csv(), "+7", 7),
        (Csv(), ".5", 0.5),
        (Csv(thousands=","), "1,234,567.5", 1234567.5),
        (Csv(thousands=","), "1234567.5", 1234567.5),
        (Csv(thousands="'"), "12'000", 12000),
        (Csv(thousands="\u202f"), "12\u202f000", 12000),
        (Csv(decimal=","), "-0,25", -0.25),
        (Csv(decimal=","), "3,0e-2", 0.03),
        (GERMAN, "1.234,5", 1234.5),
        (GERMAN, "1.234", 1234),
        (GERMAN, "12", 12),
    ],
)
def test_spellings(csv, cell, number):
    [read] = csv.numbers([cell])
    assert read == number
    assert csv.numbers([cell]).dtype == (np.int64 if isinstance(number, int) else np.float64)


@pytest.mark.parametrize(
    ("csv", "cell"),
    [
        (Csv(), "1,5"),
        (Csv(), "1_000"),
        (Csv(), "1,234"),
        (Csv(thousands=","), "1,23"),
        (Csv(thousands=","), "1,2345"),
        (Csv(thousands=","), ",123"),
        (Csv(thousands=","), "1.5,000"),
        (Csv(decimal=","), "1.5"),
        (Csv(decimal=","), "1.234"),
        (GERMAN, "1.23"),
        (GERMAN, "1,234.5"),
        (GERMAN, "1.2345,6"),
        (GERMAN, ","),
        (GERMAN, "inf"),
        (GERMAN, "nan"),
    ],
)
def test_what_another_spelling_would_read_is_refused(csv, cell):
    """A mark that means something else here never makes another number of a cell."""
    with pytest.raises(CellRejected) as caught:
        csv.numbers(["1", cell])
    assert caught.value.row == 1


@draws(200)
@given(
    st.floats(-1e12, 1e12, allow_nan=False) | st.integers(-(2**62), 2**62),
    st.sampled_from([".", ","]),
    st.sampled_from([None, ".", ",", "'", " "]),
)
def test_what_is_written_is_read(number, decimal, thousands):
    if decimal == thousands:
        thousands = None
    written = f"{number:,.3f}" if isinstance(number, float) else f"{number:,d}"
    marks = {",": thousands or "", ".": decimal}
    cell = "".join(marks.get(c, c) for c in written)
    [read] = Csv(decimal=decimal, thousands=thousands).numbers([cell])
    assert read == (float(f"{number:.3f}") if isinstance(number, float) else number)


@pytest.mark.parametrize(
    ("cell", "kind"),
    [
        ("", "empty or NaN"),
        (" NA ", "empty or NaN"),
        ("-inf", "infinite"),
        ("TRUE", "truth value"),
        ("28.02.2026", "a date"),
        ("2026-02-28 09:30", "a date"),
        ("2/28/26", "a date"),
        ("1,5", "another decimal mark"),
        ("1.234,5", "another decimal mark"),
        ("12 mg", "a unit or <"),
        ("<5", "a unit or <"),
        ("5 %", "a unit or <"),
        ("Zanzibar", "text"),
        ("Zanzibar 5", "text"),
        ("two\nlines", "text"),
    ],
)
def test_a_cell_is_described_and_not_quoted(cell, kind):
    assert kind in described(cell)
    assert "Zanzibar" not in described(cell)


def test_missing_words_are_no_numbers():
    assert all(is_missing(word) for word in MISSING_WORDS)
    assert not is_missing("0")
    for word in MISSING_WORDS:
        with pytest.raises(CellRejected):
            Csv().numbers([word])


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"separator": ";;"}, "separator"),
        ({"separator": "\n"}, "separator"),
        ({"decimal": ""}, "decimal"),
        ({"decimal": None}, "decimal"),
        ({"decimal": "5"}, "decimal"),
        ({"thousands": "."}, "thousands"),
        ({"thousands": "-"}, "thousands"),
        ({"encoding": "utf-16"}, "encoding"),
        ({"encoding": "klingon"}, "encoding"),
        ({"encoding": "rot13"}, "encoding"),
    ],
)
def test_settings_are_checked(options, field):
    with pytest.raises(ConfigError, match=f"{field}="):
        Csv(**options)
