"""Kinds of columns: what they make of cells, and that shapes and dtypes do not tell the cells."""

import datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tiers import draws

from tacit.errors import ConfigError
from tacit.runtime.files.contents import FileRejected
from tacit.runtime.files.table_columns import Column
from tacit.tables import (
    Category,
    CellRejected,
    Csv,
    Date,
    Guess,
    Integer,
    Number,
    Truth,
    column_names,
)


def encoded(kind, *parts):
    """The columns that a column becomes whose cells come in these parts."""
    column = Column(0, "c", kind)
    for cells in parts:
        column.add_text(cells, Csv())
    return [values.tolist() for _, values in column.encoded()]


def test_numbers():
    cells = ["1", "", "2.5", "NA"]
    assert encoded(Number(missing="mean"), cells) == [[1, 1.75, 2.5, 1.75]]
    assert encoded(Number(missing=-1), cells) == [[1, -1, 2.5, -1]]
    assert encoded(Number(missing="indicator"), cells) == [[1, 0, 2.5, 0], [0, 1, 0, 1]]
    assert Number(missing="indicator").names("age") == ["age", "age missing"]


def test_the_mean_is_that_of_all_parts():
    assert encoded(Number(missing="mean"), ["1", ""], ["", ""], ["6", "5"]) == [[1, 4, 4, 4, 6, 5]]


def test_integers():
    assert encoded(Integer(), ["3", "4.0", "5e1"]) == [[3, 4, 50]]
    assert encoded(Integer(missing=-9), ["3.0", ""]) == [[3, -9]]
    assert encoded(Integer(), [str(2**62)]) == [[2**62]]
    for cell in ("3.5", "1e300", str(2**70)):
        with pytest.raises(CellRejected, match="no integer"):
            encoded(Integer(), ["1", cell])


def test_truth_values():
    assert encoded(Truth(), ["Yes", "no", "1", "FALSE"]) == [[True, False, True, False]]
    assert encoded(Truth("ja", "nein"), ["Ja", "nein", "true"]) == [[True, False, True]]
    assert encoded(Truth("-", "x"), ["-", "x"]) == [[True, False]], "declared words come first"
    assert encoded(Truth(missing=False), ["yes", ""]) == [[True, False]]
    with pytest.raises(CellRejected, match="no truth value"):
        encoded(Truth(), ["yes", "maybe"])


def test_categories():
    sex = Category(["f", "m"])
    assert encoded(sex, ["m", " f "]) == [[0, 1], [1, 0]]
    assert encoded(Category(["f", "m"], codes=True), ["m", "f"]) == [[1, 0]]
    assert encoded(Category([1, 2, 3], codes=True), ["3", "1"]) == [[2, 0]]
    assert encoded(Category(["f"], other=True), ["f", "x"]) == [[1, 0], [0, 1]]
    assert sex.names("sex") == ["sex=f", "sex=m"]
    assert Category(["f"], other=True).names("sex") == ["sex=f", "sex=other"]
    for cell in ("F", "x"):
        with pytest.raises(CellRejected, match="none of the declared"):
            encoded(sex, ["f", cell])


def test_renamed_categories():
    sex = Category(
        ["male", "female"], renamed={"m": "male", "M": "male", "f": "female", 2: "female"}
    )
    assert encoded(sex, ["m", "female", " M ", "male", "2"]) == [[1, 0, 1, 1, 0], [0, 1, 0, 0, 1]]
    assert sex.names("sex") == ["sex=male", "sex=female"]
    codes = Category(["no", "yes"], codes=True, other=True, renamed={"n": "no", "NA": "no"})
    assert encoded(codes, ["yes", "n", "maybe", "NA"]) == [[1, 0, 2, 0]]
    assert repr(sex) == repr(
        Category(["male", "female"], renamed=dict([*sex.renamed.items()][::-1]))
    )
    with pytest.raises(CellRejected, match="renamed="):
        encoded(sex, ["w"])


def test_missing_categories():
    cells = ["f", "", "NA"]
    assert encoded(Category(["f", "m"], missing="m"), cells) == [[1, 0, 0], [0, 1, 1]]
    indicated = Category(["f", "m"], missing="indicator")
    assert encoded(indicated, cells) == [[1, 0, 0], [0, 0, 0], [0, 1, 1]]
    assert indicated.names("sex") == ["sex=f", "sex=m", "sex missing"]
    codes = Category(["f", "m"], missing="indicator", codes=True)
    assert encoded(codes, cells) == [[0, 0, 0], [0, 1, 1]]
    assert encoded(Category([1, 2], missing=2), ["1", ""]) == [[1, 0], [0, 1]]
    country = Category(["NA", "DE"], missing="DE")  # Namibia is a country
    assert encoded(country, ["NA", "DE", ""]) == [[1, 0, 0], [0, 1, 1]]
    with pytest.raises(CellRejected, match="empty"):
        encoded(Category(["f"], other=True), ["f", ""])


def test_dates():
    day = Date("2026-01-01")
    assert encoded(day, ["2026-01-02", "2025-12-31", "2026-01-01T12:00"]) == [[1, -1, 0.5]]
    assert encoded(day, ["2026-01-01T12:00+02:00"])[0][0] == np.float32(10 / 24)
    german = Date("2026-01-01", "%d.%m.%Y", missing="mean")
    assert encoded(german, ["03.01.2026", "", "01.01.2026"]) == [[2, 1, 0]]
    for cell in ("02.01.2026", "31.02.2026", "tomorrow"):
        with pytest.raises(CellRejected, match="no date"):
            encoded(day, ["2026-01-01", cell])


def test_one_format_has_to_fit_a_whole_column():
    """A day and a month must not change places silently."""
    either = Date("2026-01-01", ["%d/%m/%Y", "%m/%d/%Y"])
    assert encoded(either, ["02/01/2026", "13/01/2026"]) == [[1, 12]]
    assert encoded(either, ["01/02/2026"], ["01/13/2026"]) == [[1, 12]]
    assert encoded(either, ["05/05/2026"]) == [[124]]  # both say the same
    for cells, words in (
        (["01/02/2026"], "two declared formats"),
        (["13/01/2026", "01/13/2026"], "no declared format fits all"),
    ):
        column = Column(0, "c", either)
        column.add_text(cells, Csv())
        with pytest.raises(Exception, match=words):
            column.encoded()


@draws(100)
@given(st.lists(st.dates(datetime.date(1800, 1, 1), datetime.date(2200, 1, 1)), min_size=1))
def test_days_are_those_of_the_calendar(dates):
    start = datetime.date(2000, 1, 1)
    want = [(day - start).days for day in dates]
    for form in ("%d.%m.%Y", "%Y/%m/%d", "%d %B %Y"):
        assert encoded(Date("2000-01-01", form), [d.strftime(form) for d in dates]) == [want]
    assert encoded(Date("2000-01-01"), [d.isoformat() for d in dates]) == [want]


CELLS = st.sampled_from(["", "NA", "1", "0", "2.5", "true", "false", "f", "m", "2026-01-01", "x"])
KINDS = (
    *(Number(missing=m) for m in ("mean", "indicator", 0.5)),
    *(Integer(missing=m) for m in ("indicator", 3)),
    *(Truth(missing=m) for m in ("indicator", True)),
    *(Category(["f", "m"], missing=m, other=True) for m in ("indicator", "f")),
    *(Category(["f", "m"], missing=m, codes=True) for m in ("indicator", "f")),
    *(Date("2020-01-01", missing=m) for m in ("mean", "indicator", 7)),
)


@draws(200)
@given(st.lists(CELLS, min_size=1, max_size=6), st.sampled_from(KINDS))
def test_shapes_and_dtypes_of_declared_columns_tell_nothing_of_cells(cells, kind):
    def form(kind, cells):
        column = Column(0, "c", kind)
        column.add_text(cells, Csv())
        return [(name, values.dtype, values.shape) for name, values in column.encoded()]

    sample = {Category: "f", Date: "2026-01-01"}.get(type(kind), "1")
    try:
        found = form(kind, cells)
    except (CellRejected, FileRejected):
        return
    assert found == form(kind, [sample] * len(cells))
    assert [name for name, _, _ in found] == kind.names("c") == column_names({"c": kind})


@pytest.mark.parametrize("missing", ["mean", "indicator", 0, -3, 0.5, 1000])
@pytest.mark.parametrize("cells", [["1", "2", "3"], ["true", "false", "true"], ["1", "2.5", "0"]])
def test_a_guessed_dtype_does_not_tell_whether_a_cell_was_missing(missing, cells):
    def dtypes(cells):
        column = Column(0, "c", Guess(missing=missing))
        column.add_text(cells, Csv())
        return [values.dtype for _, values in column.encoded()]

    assert dtypes(cells) == dtypes([*cells, ""]) == dtypes(["", *cells])


def test_guesses():
    assert encoded(Guess(), ["TRUE", "false"]) == [[True, False]]
    assert encoded(Guess(), ["1", "2"], ["2.5"]) == [[1, 2, 2.5]]
    assert encoded(Guess(missing="mean"), ["true", "", "false"]) == [[1, 0.5, 0]]
    for cells in (["true", "1"], ["1", "Zanzibar"], ["true", "Zanzibar"]):
        with pytest.raises(CellRejected) as caught:
            encoded(Guess(), cells)
        assert "Zanzibar" not in str(caught.value)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Number(missing="median"),
        lambda: Number(missing=float("nan")),
        lambda: Number(missing=None),
        lambda: Number(missing=True),
        lambda: Integer(missing="mean"),
        lambda: Integer(missing=0.5),
        lambda: Truth(missing="mean"),
        lambda: Truth(missing=1),
        lambda: Truth("no", "yes"),
        lambda: Truth("x", "X"),
        lambda: Category([]),
        lambda: Category("fm"),
        lambda: Category(["f", "f "]),
        lambda: Category(["f"], missing="m"),
        lambda: Category(["f"], missing="mean"),
        lambda: Category(["f"], missing=0),
        lambda: Category(["f"], renamed={"w": "m"}),
        lambda: Category(["f", "m"], renamed={"m": "f"}),
        lambda: Date("1.1.2026"),
        lambda: Date(2026),
        lambda: Date("2026-01-01", missing="2026-01-01"),
    ],
)
def test_declarations_are_checked(make):
    with pytest.raises(ConfigError):
        make()
