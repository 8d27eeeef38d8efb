"""Tables as text: .csv and .tsv, also compressed with gzip."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast

from ...tables import CellRejected, Csv
from ...tables.csv_text import TRUTH_WORDS, is_missing, is_number
from .contents import Contents, FileRejected, Options
from .table_columns import Column, chosen_columns, table_contents

MOST_LINE = 1 << 22  # bytes of a record
CHUNK = 1 << 20  # bytes that are read before they become numbers
SEPARATORS = ",;\t|"
SAMPLE = 100  # records that a separator has to fit


def is_csv(path: Path) -> bool:
    """Returns whether the name is that of a csv file."""
    return path.name.lower().removesuffix(".gz").endswith((".csv", ".tsv"))


def read_csv(path: Path, options: Options) -> Contents:
    """Reads the columns by name, or a matrix of those that are chosen or have no names.

    What is not declared must be numbers or truth values: int64, float32 or bool.
    """
    columns, is_named = read_columns(path, options)
    return table_contents(columns, options, is_named=is_named, is_text=True)


def read_names(path: Path, options: Options) -> list[str] | None:
    """Returns the names of all columns; None if the file begins with data."""
    text = options.csv or Csv()
    separator = text.separator or _found_separator(path, text)
    with _bytes_of(path) as file:
        first = next(_Records(file, text, separator), None)
    if first is None:
        raise FileRejected("it is empty")
    return _names(first, options)


def read_columns(path: Path, options: Options) -> tuple[list[Column], bool]:
    """Returns the chosen columns with all of their cells, and whether columns have names."""
    text = options.csv or Csv()
    separator = text.separator or _found_separator(path, text)
    with _bytes_of(path) as file:
        records = _Records(file, text, separator)
        first = next(records, None)
        if first is None:
            raise FileRejected("it is empty")
        names = _names(first, options)
        columns = chosen_columns(names, len(first), options)
        rows = _Rows(columns, options)
        if names is None:
            rows.add(first, records)
        for cells in records:
            if len(cells) != len(first):
                raise FileRejected(
                    "a line has another number of columns than the first: another separator, or "
                    "one inside a cell without quotes; csv=tacit.tables.Csv(separator=...) says it",
                    place=f" at line {records.line}: {len(cells)}, not {len(first)}",
                )
            rows.add(cells, records)
        rows.finish()
    return columns, names is not None


def _bytes_of(path: Path) -> IO[bytes]:
    if path.suffix.lower() == ".gz":
        return cast(IO[bytes], gzip.open(path))
    return path.open("rb")


class _Records:
    """Iterates over records. `line`: the last line read; `size`: the bytes of its record."""

    def __init__(self, file: IO[bytes], text: Csv, separator: str) -> None:
        self.line, self.size = 0, 0
        self._file, self._encoding = file, text.encoding
        self._reader = csv.reader(self._lines(), strict=True, delimiter=separator)

    def _lines(self) -> Iterator[str]:
        for line in _raw_lines(self._file):
            self.line += 1
            self.size += len(line)
            if self.size > MOST_LINE:
                raise FileRejected(
                    f"a record has more than {MOST_LINE} bytes", place=f" at line {self.line}"
                )
            if self.line == 1:
                line = line.removeprefix(b"\xef\xbb\xbf")  # the byte order mark of UTF-8
            try:
                yield line.decode(self._encoding)
            except UnicodeDecodeError:
                raise FileRejected(
                    f"it is not {self._encoding}: csv=tacit.tables.Csv(encoding=...) says what it "
                    "is, such as cp1252 or latin-1",
                    place=f" at line {self.line}",
                ) from None

    def __iter__(self) -> Iterator[list[str]]:
        return self

    def __next__(self) -> list[str]:
        """Returns the next record that is not an empty line."""
        while True:
            self.size = 0
            try:
                cells = next(self._reader)
            except csv.Error:
                raise FileRejected(
                    "it is not csv: a quote, or a cell too long", place=f" at line {self.line}"
                ) from None
            if cells:
                return cells


def _raw_lines(file: IO[bytes]) -> Iterator[bytes]:
    """Yields lines, which may end as those of Unix, Windows or an old Macintosh.

    A line of more than MOST_LINE bytes is cut somewhere behind them.
    """
    rest = b""
    while chunk := file.read(CHUNK):
        lines = (rest + chunk).splitlines(keepends=True)
        rest = b"" if len(lines[-1]) > MOST_LINE else lines.pop()  # its end may follow
        yield from lines
    if rest:
        yield rest


def _found_separator(path: Path, text: Csv) -> str:
    """Returns the separator by which the first records have equally many columns, more than one.

    A comma if none does; if several do, the file is rejected.
    """
    fitting = [mark for mark in SEPARATORS if _fits(path, text, mark)]
    if len(fitting) > 1:
        raise FileRejected(
            "several separators of columns fit: csv=tacit.tables.Csv(separator=...) says which"
        )
    return fitting[0] if fitting else ","


def _fits(path: Path, text: Csv, separator: str) -> bool:
    counts = set()
    with _bytes_of(path) as file:
        try:
            for _, cells in zip(range(SAMPLE), _Records(file, text, separator), strict=False):
                counts.add(len(cells))
        except FileRejected:
            return False
    return len(counts) == 1 and counts != {1}


def _names(first: list[str], options: Options) -> list[str] | None:
    """Returns the names of the columns; None if the first line holds data like the others.

    A first line of both is rejected: names become public, and data must not.
    """
    header = options.header
    if header is None:
        data = [_is_data(cell.strip(), options.csv or Csv()) for cell in first]
        header = not any(data)
        if not header and not all(data):
            raise FileRejected(
                "the first line has names and numbers: header=True or header=False says which"
            )
        if len(first) > 1 and first == [str(i) for i in range(len(first))]:
            raise FileRejected(
                "the first line counts from 0: header=True takes it for names, False for numbers"
            )
    return [name.strip() for name in first] if header else None


def _is_data(cell: str, text: Csv) -> bool:
    """Returns whether a cell of the first line is no name; an index has an empty one."""
    if is_number(cell) or is_number(text.plain(cell)):
        return True
    return cell.casefold() in TRUTH_WORDS or (is_missing(cell) and cell != "")


class _Rows:
    """Collects rows, and gives them to their columns chunk by chunk."""

    def __init__(self, columns: list[Column], options: Options) -> None:
        self._columns, self._budget = columns, options.budget
        self._csv = options.csv or Csv()
        self._width = sum(column.width for column in columns)
        self._rows: list[list[str]] = []
        self._lines: list[int] = []
        self._size = 0

    def add(self, cells: list[str], records: _Records) -> None:
        self._rows.append(cells)
        self._lines.append(records.line)
        self._size += records.size
        if self._size >= CHUNK:
            self.finish()

    def finish(self) -> None:
        """Gives the rows that were collected to their columns."""
        if not self._rows:
            return
        self._budget.take((len(self._rows), self._width))
        cells = list(zip(*self._rows, strict=True))
        for column in self._columns:
            try:
                column.add_text(cells[column.place], self._csv)
            except CellRejected as rejection:
                line = self._lines[rejection.row or 0]
                raise FileRejected(rejection.reason, place=f" at line {line}, {column}") from None
        self._rows, self._lines, self._size = [], [], 0
