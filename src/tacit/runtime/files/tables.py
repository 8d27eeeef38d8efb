"""Tables of numbers: .csv and, with pyarrow, .parquet."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import reduce
from math import isfinite
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from torch import Tensor

from .contents import (
    Contents,
    FileRejected,
    Options,
    require_package,
    single,
    to_sharable_dtype,
)

MOST_LINE = 1 << 22  # bytes of a .csv record
CHUNK = 1 << 20  # bytes of .csv that are read before they become numbers
ROWS = 1 << 16  # rows of .parquet that are decoded at a time
MOST_METADATA = 1 << 24  # bytes of a text, or entries of a list, in the footer of a .parquet


def column_indices(names: Sequence[str] | None, count: int, options: Options) -> list[int]:
    """Returns the indices of the columns to read; all if none is chosen."""
    if names is not None and len(set(names)) < len(names):
        raise FileRejected("several of its columns have the same name")
    if options.columns is None:
        return list(range(count))
    return [_column_index(column, names, count) for column in options.columns]


def _column_index(column: str | int, names: Sequence[str] | None, count: int) -> int:
    if isinstance(column, int):
        if column not in range(count):
            raise FileRejected(
                f"columns={column}: it has fewer columns, which count from 0",
                place=f", {count} columns",
            )
        return column
    if names is None:
        raise FileRejected("it has no names of columns: columns= takes their numbers, from 0 on")
    if column not in names:
        raise FileRejected(f"columns={column!r}: it has no column of that name")
    return names.index(column)


def table_contents(
    names: Sequence[str] | None, tensors: Sequence[Tensor], options: Options
) -> Contents:
    """Returns a dict of columns, or a matrix if columns were chosen or have no names."""
    if names is not None and options.columns is None:
        return Contents("dict", dict(zip(names, tensors, strict=True)))
    dtype = reduce(torch.promote_types, [tensor.dtype for tensor in tensors])
    return single(torch.stack([tensor.to(dtype) for tensor in tensors], dim=1))


# .csv ---------------------------------------------------------------------------------------------


def read_csv(path: Path, options: Options) -> Contents:
    """Reads the columns by name, or a matrix of those that are chosen or have no names.

    Only these must be numbers. A column of integers becomes int64, any other float32.
    """
    with path.open("rb") as file:
        records = _Records(file)
        first = next(records, None)
        if first is None:
            raise FileRejected("it is empty")
        names = _names(first, options)
        places = column_indices(names, len(first), options)
        columns = _Columns(places, options)
        if names is None:
            columns.add(first, records)
        for cells in records:
            if len(cells) != len(first):
                raise FileRejected(
                    "a line has another number of columns than the first",
                    place=f" at line {records.line}: {len(cells)}, not {len(first)}",
                )
            columns.add(cells, records)
    return table_contents(names, columns.tensors(), options)


class _Records:
    """Iterates over records. `line`: the last line read; `size`: the bytes of its record."""

    def __init__(self, file: IO[bytes]) -> None:
        self.line, self.size, self._file = 0, 0, file
        self._reader = csv.reader(self._lines(), strict=True)

    def _lines(self) -> Iterator[str]:
        while line := self._file.readline(MOST_LINE + 1):
            self.line += 1
            self.size += len(line)
            if self.size > MOST_LINE:
                raise FileRejected(
                    f"a record has more than {MOST_LINE} bytes", place=f" at line {self.line}"
                )
            try:
                yield line.decode("utf-8-sig" if self.line == 1 else "utf-8")
            except UnicodeDecodeError:
                raise FileRejected("it is not UTF-8", place=f" at line {self.line}") from None

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


def _names(first: list[str], options: Options) -> list[str] | None:
    """Returns the names of the columns; None if the first line holds numbers like the others.

    A first line of both is rejected: names become public, and data must not.
    """
    header = options.header
    if header is None:
        numbers = [_is_number(cell) for cell in first]
        header = not any(numbers)
        if not header and not all(numbers):
            raise FileRejected(
                "the first line has names and numbers: header=True or header=False says which"
            )
        if len(first) > 1 and first == [str(i) for i in range(len(first))]:
            raise FileRejected(
                "the first line counts from 0: header=True takes it for names, False for numbers"
            )
    if not header:
        return None
    if "" in first:
        raise FileRejected(
            "a column has no name", place=f" at line 1, column {first.index('') + 1}"
        )
    return first


def _is_number(cell: str, finite: bool = False) -> bool:
    try:
        number = float(cell)
    except ValueError:
        return False
    return "_" not in cell and (isfinite(number) or not finite)


class _Columns:
    """Collects the chosen columns, and converts them to numbers chunk by chunk."""

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
            raise FileRejected("it has names of columns and no line of numbers")
        return [_tensor(parts) for parts in self._parts]

    def _convert(self) -> None:
        self._budget.take((len(self._rows), len(self._places)))
        columns = list(zip(*self._rows, strict=True))
        for place, parts in zip(self._places, self._parts, strict=True):
            parts.append(self._numbers(columns[place], place))
        self._rows, self._lines, self._size = [], [], 0

    def _numbers(self, cells: tuple[str, ...], place: int) -> np.ndarray:
        if "_" not in "".join(cells):  # Python accepts 1_000 as a number
            with suppress(ValueError, OverflowError):
                return np.array(list(map(int, cells)), np.int64)
            with suppress(ValueError):
                numbers = np.array(list(map(float, cells)))
                if np.isfinite(numbers).all():
                    return numbers
        bad = next(i for i, cell in enumerate(cells) if not _is_number(cell, finite=True))
        raise FileRejected(
            "a cell is not a finite number; columns= chooses the columns that are read",
            place=f" at line {self._lines[bad]}, column {place + 1}",
        )


def _tensor(parts: list[np.ndarray]) -> Tensor:
    column = torch.from_numpy(np.concatenate(parts))
    return column.to(torch.float32) if column.is_floating_point() else column


# .parquet -----------------------------------------------------------------------------------------


def read_parquet(path: Path, options: Options) -> Contents:
    """Reads the columns by name, or a matrix of those that are chosen."""
    parquet = require_package("pyarrow.parquet", "pyarrow>=15")
    with parquet.ParquetFile(
        path,
        pre_buffer=False,
        thrift_string_size_limit=MOST_METADATA,
        thrift_container_size_limit=MOST_METADATA,
    ) as file:
        schema, rows = file.schema_arrow, file.metadata.num_rows
        places = column_indices(schema.names, len(schema.names), options)
        dtypes = [_parquet_dtype(schema.types[place], place) for place in places]
        options.budget.take((rows, len(places)))
        _check_sizes(file.metadata, options.budget.limit)
        columns = [np.empty(rows, dtype) for dtype in dtypes]
        names = [schema.names[place] for place in places]
        done = 0
        for batch in file.iter_batches(batch_size=ROWS, columns=names, use_threads=False):
            if done + batch.num_rows > rows:
                raise FileRejected("it has more rows than it says")
            for column, name, place in zip(columns, names, places, strict=True):
                column[done : done + batch.num_rows] = _parquet_values(
                    batch.column(name), place, done
                )
            done += batch.num_rows
    if done != rows or not rows:
        raise FileRejected(
            "it has no rows, or not as many as it says", place=f", {done} rows instead of {rows}"
        )
    return table_contents(
        names, [to_sharable_dtype(torch.from_numpy(column)) for column in columns], options
    )


def _parquet_dtype(type_: Any, place: int) -> np.dtype:
    types = require_package("pyarrow.types", "pyarrow>=15")
    if not (types.is_integer(type_) or types.is_floating(type_) or types.is_boolean(type_)):
        raise FileRejected(
            "a column is not of numbers; columns= chooses the columns that are read",
            place=f" at column {place + 1}",
        )
    return np.dtype(type_.to_pandas_dtype())


def _check_sizes(metadata: Any, limit: int) -> None:
    """Rejects row groups that declare more bytes than the limit."""
    for i in range(metadata.num_row_groups):
        group = metadata.row_group(i)
        if not 0 <= group.total_byte_size <= limit:
            raise FileRejected(
                f"a row group takes more than limit={limit} bytes", place=f" at row group {i}"
            )


def _parquet_values(column: Any, place: int, done: int) -> np.ndarray:
    if column.null_count:
        row = done + int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
        raise FileRejected("a cell is empty", place=f" at row {row}, column {place + 1}")
    return column.to_numpy(zero_copy_only=False)
