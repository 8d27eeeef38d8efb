"""`.parquet`: columns of numbers, by pyarrow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from .contents import Contents, Options, Refusal, package, plain
from .tables import chosen, table

ROWS = 1 << 16  # that are decoded at a time
MOST_METADATA = 1 << 24  # bytes of a text, or entries of a list, in the footer


def read_parquet(path: Path, options: Options) -> Contents:
    """The columns by name, or a matrix of those that are asked for."""
    parquet = package("pyarrow.parquet", "pyarrow>=15")
    with parquet.ParquetFile(
        path,
        pre_buffer=False,
        thrift_string_size_limit=MOST_METADATA,
        thrift_container_size_limit=MOST_METADATA,
    ) as file:
        schema, rows = file.schema_arrow, file.metadata.num_rows
        places = chosen(schema.names, len(schema.names), options)
        dtypes = [_dtype(schema.types[place], place) for place in places]
        options.budget.take((rows, len(places)))
        _check_sizes(file.metadata, options.budget.limit)
        columns = [np.empty(rows, dtype) for dtype in dtypes]
        names = [schema.names[place] for place in places]
        done = 0
        for batch in file.iter_batches(batch_size=ROWS, columns=names, use_threads=False):
            if done + batch.num_rows > rows:
                raise Refusal("it has more rows than it says")
            for column, name, place in zip(columns, names, places, strict=True):
                column[done : done + batch.num_rows] = _values(batch.column(name), place, done)
            done += batch.num_rows
    if done != rows or not rows:
        raise Refusal(f"it has {done} rows and says {rows}")
    return table(names, [plain(torch.from_numpy(column)) for column in columns], options)


def _dtype(type_: Any, place: int) -> np.dtype:
    types = package("pyarrow.types", "pyarrow>=15")
    if not (types.is_integer(type_) or types.is_floating(type_) or types.is_boolean(type_)):
        raise Refusal(
            f"column {place + 1} is not of numbers; columns= chooses the columns that are read"
        )
    return np.dtype(type_.to_pandas_dtype())


def _check_sizes(metadata: Any, limit: int) -> None:
    """Refuses row groups that say they unpack to more than the limit."""
    for i in range(metadata.num_row_groups):
        group = metadata.row_group(i)
        if not 0 <= group.total_byte_size <= limit:
            raise Refusal(f"row group {i} takes more than limit={limit} bytes")


def _values(column: Any, place: int, done: int) -> np.ndarray:
    if column.null_count:
        row = done + int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
        raise Refusal(f"column {place + 1}, row {row} is empty")
    return column.to_numpy(zero_copy_only=False)
