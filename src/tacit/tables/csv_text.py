"""How a csv file spells numbers and missing values, and what a cell that is no number is."""

from __future__ import annotations

import codecs
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..errors import ConfigError

# Cells that say that nothing is known; as in pandas, and a single dash or question mark.
MISSING_WORDS = frozenset(
    [
        *("", "-", "?", "NA", "N/A", "n/a", "#NA", "#N/A", "<NA>"),
        *("NaN", "-NaN", "nan", "-nan", "NULL", "null", "None", "none"),
    ]
)
TAKEN = 'missing="mean", "indicator" or a value takes such cells'
TRUTH_WORDS = {"true": True, "false": False}

_DATE = re.compile(r"\d{1,4}([-./])\d{1,2}\1\d{1,4}(\D.*)?|\d{1,4}-?W\d{2}.*", re.DOTALL)
_GROUPED = re.compile(r"[+-]?\d[\d.,' \u00a0\u202f]*([eE][+-]?\d+)?")
_WITH_MORE = re.compile(r"([<>≤≥~±]=?\s*[+-]?[\d.,]+.*)|([+-]?\d[\d.,]*\s*\D.*)", re.DOTALL)
_INFINITE = re.compile(r"[+-]?inf(inity)?", re.IGNORECASE)


class CellRejected(Exception):
    """Why a cell is rejected, without quoting it; `row` counts from 0 in the cells given, if known.

    Every party may see the reason.
    """

    def __init__(self, reason: str, row: int | None = None) -> None:
        super().__init__(reason)
        self.reason, self.row = reason, row


@dataclass(frozen=True)
class Csv:
    """How a csv file is written; its owner alone needs to know.

    separator: between cells; None finds the one of , ; tab and | that fits the first records.
    decimal: the decimal mark. thousands: the mark between groups of three digits, if any.
    encoding: utf-8, latin-1, cp1252 or any other that extends ASCII.
    """

    separator: str | None = None
    decimal: str = "."
    thousands: str | None = None
    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        for field in ("separator", "decimal", "thousands"):
            mark = getattr(self, field)
            if mark is None and field != "decimal":
                continue
            if not isinstance(mark, str) or len(mark) != 1 or mark in '"\r\n0123456789+-eE':
                raise _wrong(field, mark, "one character is needed, no digit, sign, quote or e")
        if self.decimal == self.thousands:
            raise _wrong("thousands", self.thousands, "another mark than decimal= is needed")
        try:
            extends_ascii = codecs.encode("\n,;9", self.encoding) == b"\n,;9"
        except (LookupError, TypeError, ValueError):
            extends_ascii = False
        if not extends_ascii:
            limit = "an encoding that extends ASCII is needed: utf-8, latin-1, cp1252, ..."
            raise _wrong("encoding", self.encoding, limit)

    @cached_property
    def _number(self) -> re.Pattern[str]:
        point, group = re.escape(self.decimal), re.escape(self.thousands or "")
        grouped = rf"\d{{1,3}}(?:{group}\d{{3}})+|" if self.thousands else ""
        return re.compile(rf"\s*([+-]?)({grouped}\d*)({point}\d*)?([eE][+-]?\d+)?\s*", re.ASCII)

    def plain(self, cell: str) -> str:
        """Returns a number as Python writes it; "?" for what is none in this spelling."""
        found = self._number.fullmatch(cell)
        if found is None:
            return "?"
        sign, whole, fraction, exponent = found.groups("")
        whole = whole.replace(self.thousands or "", "")
        return sign + whole + fraction.replace(self.decimal, ".") + exponent

    def numbers(self, cells: Sequence[str]) -> np.ndarray:
        """Returns int64 if all cells are integers, else float64; all are finite."""
        is_python = self.decimal == "." and self.thousands is None
        texts = cells if is_python else [self.plain(cell) for cell in cells]
        if "_" not in "".join(texts):  # Python accepts 1_000 as a number
            with suppress(ValueError, OverflowError):
                return np.array(list(map(int, texts)), np.int64)
            with suppress(ValueError):
                numbers = np.array(list(map(float, texts)), np.float64)
                if np.isfinite(numbers).all():
                    return numbers
        bad = next(i for i, text in enumerate(texts) if not is_number(text, finite=True))
        raise CellRejected(f"a cell {described(cells[bad])}", bad)


def is_number(cell: str, finite: bool = False) -> bool:
    """Returns whether Python reads a cell as a number."""
    try:
        number = float(cell)
    except ValueError:
        return False
    return "_" not in cell and (bool(np.isfinite(number)) or not finite)


def is_missing(cell: str) -> bool:
    """Returns whether a cell says that nothing is known."""
    return cell.strip() in MISSING_WORDS


def described(cell: str) -> str:
    """Returns what a cell is that was to be a number, and the way out; never its text."""
    text = cell.strip()
    if is_missing(text):
        return f"is empty or NaN: {TAKEN}"
    if _INFINITE.fullmatch(text):
        return "is infinite: only finite numbers can be shared"
    if text.casefold() in TRUTH_WORDS:
        return f"is a truth value among others: {_declare('Truth()')}"
    if _DATE.fullmatch(text):
        return f"is a date: {_declare('Date(...)')}"
    if _GROUPED.fullmatch(text):
        return (
            "is a number with another decimal mark, or with marks between thousands: "
            'csv=tacit.tables.Csv(decimal=",", thousands=".") says which'
        )
    if _WITH_MORE.fullmatch(text):
        return "is a number with more, such as a unit or <: the file has to have numbers alone"
    return f"is text: {_declare('Category([...])')}"


def _declare(kind: str) -> str:
    return (
        f"columns={{...}} can declare the column as tacit.tables.{kind}, without=[...] leaves it "
        "out"
    )


def _wrong(field: str, value: object, limit: str) -> ConfigError:
    return ConfigError(f"{field}={value!r}", limit=limit, subject="Csv")
