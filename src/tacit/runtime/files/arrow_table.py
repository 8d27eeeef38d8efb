"""Tables with typed columns, read with pyarrow: .parquet files, and frames of pandas or polars."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...tables import CellRejected, Csv, Date, Guess, Integer, Number, Truth
from .contents import Contents, FileRejected, Options, require_package
from .table_columns import Column, chosen_columns, table_contents

PYARROW = "pyarrow>=15"
ROWS = 1 << 16  # that are decoded at a time
MOST_METADATA = 1 << 24  # bytes of a text, or entries of a list, in the footer of a .parquet


def read_parquet(path: Path, options: Options) -> Contents:
    """Reads the columns by name, or a matrix of those that are chosen."""
    parquet = require_package("pyarrow.parquet", PYARROW)
    with parquet.ParquetFile(
        path,
        pre_buffer=False,
        thrift_string_size_limit=MOST_METADATA,
        thrift_container_size_limit=MOST_METADATA,
    ) as file:
        schema = file.schema_arrow
        columns = chosen_columns(schema.names, len(schema.names), options)
        _check_sizes(file.metadata, options.budget.limit)
        names = [schema.names[column.place] for column in columns]
        batches = file.iter_batches(batch_size=ROWS, columns=names, use_threads=False)
        _read(columns, schema.types, file.metadata.num_rows, batches, options)
    return table_contents(columns, options, is_named=True)


def read_frame(frame: Any, options: Options) -> Contents:
    """Reads a frame that shows itself as an Arrow stream; the index of pandas is left out."""
    arrow = require_package("pyarrow", PYARROW)
    table = arrow.table(frame.reset_index(drop=True) if hasattr(frame, "reset_index") else frame)
    columns = chosen_columns(table.schema.names, len(table.schema.names), options)
    batches = table.to_batches(max_chunksize=ROWS)
    _read(columns, table.schema.types, table.num_rows, batches, options)
    return table_contents(columns, options, is_named=True)


def _read(
    columns: Sequence[Column],
    types: Sequence[Any],
    rows: int,
    batches: Iterable[Any],
    options: Options,
) -> None:
    """Adds all batches to the columns."""
    options.budget.take((rows, sum(column.width for column in columns)))
    for column in columns:
        _check_type(column, types[column.place])
    done = 0
    for batch in batches:
        if done + batch.num_rows > rows:
            raise FileRejected("it has more rows than it says")
        names = batch.schema.names
        for column in columns:
            try:
                _add(column, batch.column(names.index(column.name)))
            except CellRejected as rejection:
                row = "" if rejection.row is None else f" row {done + rejection.row},"
                raise FileRejected(rejection.reason, place=f" at{row} {column}") from None
        done += batch.num_rows
    if done != rows or not rows:
        raise FileRejected(
            "it has no rows, or not as many as it says", place=f", {done} rows instead of {rows}"
        )


def _check_type(column: Column, type_: Any) -> None:
    """Rejects lists, bytes and records, and all but numbers if nothing is declared."""
    if _is_number(type_):
        return
    if type(column.kind) is Guess:
        raise FileRejected(
            "a column is not of numbers: columns={...} can declare what it holds (tacit.tables), "
            "without=[...] leaves it out",
            place=f" at {column}",
        )
    if not (_is_text(type_) or _is_time(type_)):
        raise FileRejected(
            "a column is neither of numbers nor of text nor of dates", place=f" at {column}"
        )


def _add(column: Column, cells: Any) -> None:
    arrow = require_package("pyarrow", PYARROW)
    if _is_number(cells.type) and isinstance(column.kind, Guess | Number | Integer | Truth):
        values = np.asarray(cells.fill_null(False if cells.type == arrow.bool_() else 0))
        absent = np.asarray(cells.is_null())
        if values.dtype.kind == "f":
            absent |= np.isnan(values)
            values = np.where(absent, values.dtype.type(0), values)
        column.add(values, absent)
    elif _is_time(cells.type) and isinstance(column.kind, Date):
        column.add(*_days(column.kind, cells))
    else:
        texts = ["" if cell is None else str(cell) for cell in cells.to_pylist()]
        column.add_text(texts, Csv())


def _days(kind: Date, cells: Any) -> tuple[np.ndarray, np.ndarray]:
    arrow = require_package("pyarrow", PYARROW)
    if arrow.types.is_timestamp(cells.type):  # Python's moments have no nanoseconds
        cells = cells.cast(arrow.timestamp("us", cells.type.tz), safe=False)
    moments = cells.to_pylist()
    days = [0.0 if moment is None else kind.days(moment) for moment in moments]
    return np.array(days).reshape(-1, 1), np.array([moment is None for moment in moments])


def _is_number(type_: Any) -> bool:
    types = require_package("pyarrow.types", PYARROW)
    return types.is_integer(type_) or types.is_floating(type_) or types.is_boolean(type_)


def _is_time(type_: Any) -> bool:
    types = require_package("pyarrow.types", PYARROW)
    return types.is_date(type_) or types.is_timestamp(type_)


def _is_text(type_: Any) -> bool:
    """Returns whether cells are read as text: also categories, decimals and columns of nulls."""
    types = require_package("pyarrow.types", PYARROW)
    if types.is_dictionary(type_):
        return _is_text(type_.value_type) or _is_number(type_.value_type)
    kinds = (types.is_string, types.is_large_string, types.is_decimal, types.is_null)
    return any(is_kind(type_) for is_kind in kinds) or str(type_) == "string_view"


def _check_sizes(metadata: Any, limit: int) -> None:
    """Rejects row groups that declare more bytes than the limit."""
    for i in range(metadata.num_row_groups):
        group = metadata.row_group(i)
        if not 0 <= group.total_byte_size <= limit:
            raise FileRejected(
                f"a row group takes more than limit={limit} bytes", place=f" at row group {i}"
            )
