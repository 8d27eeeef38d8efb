"""Kinds of columns. All parties declare the same ones: then rows of several owners mean the same.

A kind decides how many columns of numbers a column becomes, whatever its cells are: shapes are
public, and must not tell what is in the table. Missing cells are replaced by their owner.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..errors import ConfigError
from .csv_text import TRUTH_WORDS, CellRejected, Csv

Missing = str | float


@dataclass(frozen=True, kw_only=True)
class Kind(ABC):
    """What a column holds, and what becomes of its missing cells.

    missing: "error" refuses them; "mean" takes the mean of the owner's other cells; "indicator"
    takes 0 and adds a column that is 1 where a cell was missing; a value takes their place.
    """

    missing: Missing = "error"

    WORDS: ClassVar[tuple[str, ...]] = ("error", "mean", "indicator")
    VALUES: ClassVar[tuple[type, ...]] = (int, float)

    def __post_init__(self) -> None:
        is_value = type(self.missing) in self.VALUES and bool(np.isfinite(self.missing))
        if not is_value and self.missing not in self.WORDS:
            raise ConfigError(
                f"missing={self.missing!r}",
                limit=f"allowed are {', '.join(map(repr, self.WORDS))} and a value of the column",
                subject=type(self).__name__,
            )

    def names(self, name: str) -> list[str]:
        """Returns the names of the columns that a column of this name becomes."""
        return [name, f"{name} missing"] if self.missing == "indicator" else [name]

    def knows(self, cell: str) -> bool:
        """Returns whether a cell that looks like a missing one has a meaning."""
        return False

    @abstractmethod
    def parse(self, cells: Sequence[str], csv: Csv) -> np.ndarray:
        """Returns a number for each cell; raises CellRejected for the first that has none."""

    @abstractmethod
    def encode(self, values: np.ndarray, absent: np.ndarray) -> list[np.ndarray]:
        """Returns the columns of numbers for all values; `absent` says which cells were missing."""

    def filled(self, values: np.ndarray, absent: np.ndarray) -> np.ndarray:
        """Returns the values with those of missing cells replaced."""
        if self.missing != "mean":
            return np.where(absent, 0 if isinstance(self.missing, str) else self.missing, values)
        if absent.all():
            raise CellRejected('missing="mean": all cells of a column are missing')
        return np.where(absent, values[~absent].astype(np.float64).mean(), values)

    def with_indicator(self, columns: list[np.ndarray], absent: np.ndarray) -> list[np.ndarray]:
        """Returns the columns, and the one that says which cells were missing if it is wanted."""
        wanted = [absent.astype(columns[0].dtype)] if self.missing == "indicator" else []
        return columns + wanted


def column_names(columns: Mapping[str, Kind]) -> list[str]:
    """Returns the names of the columns of the matrix that `session.load(columns=columns)` gives."""
    return [made for name, kind in columns.items() for made in kind.names(str(name))]


@dataclass(frozen=True, kw_only=True)
class Number(Kind):
    """A real number, as float32."""

    def parse(self, cells: Sequence[str], csv: Csv) -> np.ndarray:
        return csv.numbers(cells)

    def encode(self, values: np.ndarray, absent: np.ndarray) -> list[np.ndarray]:
        numbers = self.filled(values.astype(np.float64), absent)
        return self.with_indicator([numbers.astype(np.float32)], absent)


@dataclass(frozen=True, kw_only=True)
class Integer(Kind):
    """An integer, as int64; 3.0 is one, too."""

    WORDS: ClassVar[tuple[str, ...]] = ("error", "indicator")
    VALUES: ClassVar[tuple[type, ...]] = (int,)

    def parse(self, cells: Sequence[str], csv: Csv) -> np.ndarray:
        return self.whole(csv.numbers(cells))

    def encode(self, values: np.ndarray, absent: np.ndarray) -> list[np.ndarray]:
        numbers = self.filled(self.whole(values), absent)
        return self.with_indicator([numbers.astype(np.int64)], absent)

    def whole(self, numbers: np.ndarray) -> np.ndarray:
        """Returns numbers as int64; rejects the first that has a fraction or may be rounded."""
        if numbers.dtype.kind == "f":
            bad = (numbers != np.round(numbers)) | (np.abs(numbers) >= 2**53)
            if bad.any():
                raise CellRejected("a cell is a number that is no integer", int(bad.argmax()))
        return numbers.astype(np.int64)


@dataclass(frozen=True)
class Truth(Kind):
    """A truth value, as bool. true, false: words for it besides true and false, yes and no, y and
    n, t and f, 1 and 0, in upper and lower case.
    """

    true: str = "true"
    false: str = "false"

    WORDS: ClassVar[tuple[str, ...]] = ("error", "indicator")
    VALUES: ClassVar[tuple[type, ...]] = (bool,)

    def __post_init__(self) -> None:
        super().__post_init__()
        words = self.words()
        if not words.get(self.true.casefold()) or words.get(self.false.casefold()):
            raise ConfigError(f"{self!r}", limit="a word is either true or false", subject="Truth")

    def words(self) -> dict[str, bool]:
        own = {self.true.casefold(): True, self.false.casefold(): False}
        true = dict.fromkeys(("true", "yes", "y", "t", "1", "1.0"), True)
        false = dict.fromkeys(("false", "no", "n", "f", "0", "0.0"), False)
        return own | true | false

    def knows(self, cell: str) -> bool:
        return cell.strip().casefold() in self.words()

    def parse(self, cells: Sequence[str], csv: Csv) -> np.ndarray:
        words = self.words()
        found = [words.get(cell.strip().casefold()) for cell in cells]
        if None in found:
            reason = "a cell is no truth value: Truth(true, false) declares other words"
            raise CellRejected(reason, found.index(None))
        return np.array(found, bool)

    def encode(self, values: np.ndarray, absent: np.ndarray) -> list[np.ndarray]:
        bad = (values != 0) & (values != 1)
        if bad.any():
            raise CellRejected("a cell is a number that is neither 0 nor 1", int(bad.argmax()))
        return self.with_indicator([self.filled(values, absent).astype(bool)], absent)


@dataclass(frozen=True, kw_only=True)
class Guess(Kind):
    """What a column seems to hold if nothing is declared: truth values, integers, real numbers."""

    def parse(self, cells: Sequence[str], csv: Csv) -> np.ndarray:
        if all(cell.strip().casefold() in TRUTH_WORDS for cell in cells):
            return np.array([TRUTH_WORDS[cell.strip().casefold()] for cell in cells], bool)
        return csv.numbers(cells)

    def encode(self, values: np.ndarray, absent: np.ndarray) -> list[np.ndarray]:
        """Returns the column in a dtype that does not tell whether a cell was missing."""
        filled = self.filled(values.astype(self._dtype(values)), absent)
        return self.with_indicator([filled.astype(self._dtype(values))], absent)

    def _dtype(self, values: np.ndarray) -> np.dtype:
        if self.missing == "mean" or isinstance(self.missing, float):
            return np.result_type(values, np.float32)
        if isinstance(self.missing, str):
            return values.dtype
        return np.result_type(values, np.min_scalar_type(self.missing))
