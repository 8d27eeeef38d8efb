"""`.csv`: columns of numbers, with a line of names or without."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from contextlib import suppress
from math import isfinite
from pathlib import Path
from typing import IO

import numpy as np
import torch
from torch import Tensor

from .contents import Contents, Options, Refusal
from .tables import chosen, table

MOST_LINE = 1 << 22  # bytes of a record
CHUNK = 1 << 20  # bytes that are read before they become numbers


def read_csv(path: Path, options: Options) -> Contents:
    """The columns by name, or a matrix of those that are asked for, or have no names.

    Only these have to be numbers: int64 where a column has nothing else, or float32.
    """
    with path.open("rb") as file:
        records = _Records(file)
        first = next(records, None)
        if first is None:
            raise Refusal("it is empty")
        names = _names(first, options)
        places = chosen(names, len(first), options)
        columns = _Columns(places, options)
        if names is None:
            columns.add(first, records)
        for cells in records:
            if len(cells) != len(first):
                raise Refusal(f"line {records.line} has {len(cells)} columns, not {len(first)}")
            columns.add(cells, records)
    return table(names, columns.tensors(), options)


class _Records:
    """The records of a file; `line` is the last that was read, `size` the bytes of its record."""

    def __init__(self, file: IO[bytes]) -> None:
        self.line, self.size, self._file = 0, 0, file
        self._reader = csv.reader(self._lines(), strict=True)

    def _lines(self) -> Iterator[str]:
        while line := self._file.readline(MOST_LINE + 1):
            self.line += 1
            self.size += len(line)
            if self.size > MOST_LINE:
                raise Refusal(f"line {self.line} ends a record of more than {MOST_LINE} bytes")
            try:
                yield line.decode("utf-8-sig" if self.line == 1 else "utf-8")
            except UnicodeDecodeError:
                raise Refusal(f"line {self.line} is not UTF-8") from None

    def __iter__(self) -> Iterator[list[str]]:
        return self

    def __next__(self) -> list[str]:
        """The next record that is not an empty line."""
        while True:
            self.size = 0
            try:
                cells = next(self._reader)
            except csv.Error:
                raise Refusal(f"line {self.line} is not csv: a quote, or a cell too long") from None
            if cells:
                return cells


def _names(first: list[str], options: Options) -> list[str] | None:
    """The names of the columns; None if the first line holds numbers, as the others do.

    A line of both is refused: names are told to all parties, and data must not be.
    """
    header = options.header
    if header is None:
        numbers = [_is_number(cell) for cell in first]
        header = not any(numbers)
        if not header and not all(numbers):
            raise Refusal("line 1 has names and numbers: header=True or header=False says which")
        if len(first) > 1 and first == [str(i) for i in range(len(first))]:
            raise Refusal("line 1 counts from 0: header=True takes it for names, False for numbers")
    if not header:
        return None
    if "" in first:
        raise Refusal(f"line 1: column {first.index('') + 1} has no name")
    return first


def _is_number(cell: str, finite: bool = False) -> bool:
    try:
        number = float(cell)
    except ValueError:
        return False
    return "_" not in cell and (isfinite(number) or not finite)


class _Columns:
    """The chosen columns, as they grow."""

    def __init__(self, places: list[int], options: Options) -> None:
        self._places, self._budget = places, options.budget
        self._rows: list[list[str]] = []
        self._lines: list[int] = []
        self._size = 0
        self._parts: list[list[np.ndarray]] = [[] for _ in places]

    def add(self, cells: list[str], records: _Records) -> None:
        self._rows.append(cells)
        self._lines.append(records.line)
        self._size += records.size
        if self._size >= CHUNK:
            self._convert()

    def tensors(self) -> list[Tensor]:
        if self._rows:
            self._convert()
        if not all(self._parts):
            raise Refusal("it has names of columns and no line of numbers")
        return [_tensor(parts) for parts in self._parts]

    def _convert(self) -> None:
        self._budget.take((len(self._rows), len(self._places)))
        columns = list(zip(*self._rows, strict=True))
        for place, parts in zip(self._places, self._parts, strict=True):
            parts.append(self._numbers(columns[place], place))
        self._rows, self._lines, self._size = [], [], 0

    def _numbers(self, cells: tuple[str, ...], place: int) -> np.ndarray:
        if "_" not in "".join(cells):  # which Python's numbers may have
            with suppress(ValueError, OverflowError):
                return np.array(list(map(int, cells)), np.int64)
            with suppress(ValueError):
                numbers = np.array(list(map(float, cells)))
                if np.isfinite(numbers).all():
                    return numbers
        bad = next(i for i, cell in enumerate(cells) if not _is_number(cell, finite=True))
        raise Refusal(
            f"line {self._lines[bad]}, column {place + 1} is not a finite number; columns= chooses "
            "the columns that are read"
        )


def _tensor(parts: list[np.ndarray]) -> Tensor:
    column = torch.from_numpy(np.concatenate(parts))
    return column.to(torch.float32) if column.is_floating_point() else column
