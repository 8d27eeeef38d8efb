"""Columns of dates, as days since a date that all parties have declared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

import numpy as np

from ..errors import ConfigError
from .csv_text import CellRejected, Csv
from .kinds import Kind


@dataclass(frozen=True)
class Date(Kind):
    """Days since a date, as float32; a time of day is a fraction of a day.

    formats: as `strptime` takes them; none is ISO, such as 2026-02-28 or 2026-02-28T09:30. All
    cells of a column have one format; if two of them fit and differ, the column is refused. A value
    of `missing` is a number of days.
    """

    since: str
    formats: Sequence[str] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        formats = (self.formats,) if isinstance(self.formats, str) else tuple(self.formats)
        object.__setattr__(self, "formats", formats)
        try:
            self.start()
        except (TypeError, ValueError):
            raise ConfigError(
                f"since={self.since!r}", limit="a date such as 2020-01-31 is needed", subject="Date"
            ) from None

    def start(self) -> datetime:
        return datetime.fromisoformat(self.since).replace(tzinfo=None)

    def parse(self, cells: Sequence[str], csv: Csv) -> np.ndarray:
        """Returns the days by each of the formats, NaN where one does not fit."""
        formats = self.formats or ("",)
        days = np.array([[self._days(cell.strip(), form) for form in formats] for cell in cells])
        days = days.reshape(len(cells), len(formats))
        bad = np.isnan(days).all(axis=1)
        if bad.any():
            reason = "a cell is no date in a declared format: Date(formats=[...]) declares others"
            raise CellRejected(reason, int(bad.argmax()))
        return days

    def _days(self, cell: str, form: str) -> float:
        try:
            return self.days(
                datetime.strptime(cell, form) if form else datetime.fromisoformat(cell)
            )
        except ValueError:
            return np.nan

    def days(self, moment: date) -> float:
        """Returns the days from the start to a moment; one with a time zone counts in UTC."""
        if not isinstance(moment, datetime):
            moment = datetime(moment.year, moment.month, moment.day)
        if moment.tzinfo is not None:
            moment = moment.astimezone(UTC).replace(tzinfo=None)
        return (moment - self.start()) / timedelta(days=1)

    def encode(self, values: np.ndarray, absent: np.ndarray) -> list[np.ndarray]:
        days = self.filled(_by_one_format(values, absent), absent)
        return self.with_indicator([days.astype(np.float32)], absent)


def _by_one_format(values: np.ndarray, absent: np.ndarray) -> np.ndarray:
    """Returns the days by the format that fits all cells."""
    fitting = values[:, ~np.isnan(values[~absent]).any(axis=0)]
    if not fitting.shape[1]:
        raise CellRejected("no declared format fits all dates of a column")
    if (fitting[~absent] != fitting[~absent, :1]).any():
        raise CellRejected(
            "two declared formats fit all dates of a column, and differ: declare the right one"
        )
    return fitting[:, 0]
