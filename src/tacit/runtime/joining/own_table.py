"""The table of an owner: ids of its rows, and columns of numbers."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...fixedpoint import Numbers
from ...tables import Csv, Guess, Kind, column_names
from ..files.arrow_table import PYARROW
from ..files.contents import Budget, Contents, FileRejected, Options, require_package
from ..files.csv_table import is_csv, read_columns, read_names
from ..files.reading import OTHERS, check_values, read, rejection_of
from .ids import encoded_ids


@dataclass(frozen=True)
class OwnTable:
    """What only the owner has: an id for each row, and numbers of shape (rows, columns)."""

    ids: list[bytes]
    names: list[str]
    numbers: Tensor


def read_table(
    n: Numbers, given: Any, on: Sequence[str], options: Options, *, ids_only: bool = False
) -> OwnTable:
    """Returns the owner's table; what is wrong with it is FileRejected.

    given: a dict of columns, a frame of pandas or polars, or the path of a .csv, .tsv or .parquet.
    """
    columns = _column_names(given, options)
    if missing := [name for name in on if name not in columns]:
        raise FileRejected(f"on={missing[0]!r}: it has no column of that name")
    ids = encoded_ids(_cells(given, on, options))
    wanted = [name for name in columns if name not in on and _is_chosen(name, options)]
    if ids_only or not wanted:
        return OwnTable(ids, [], torch.empty(len(ids), 0))
    names, numbers = _numbers(given, wanted, options)
    if len(numbers) != len(ids):
        raise FileRejected("its columns have different numbers of rows")
    check_values(n, Contents("dict", dict(zip(names, numbers.unbind(1), strict=True))))
    return OwnTable(ids, names, numbers)


def _is_chosen(name: str, options: Options) -> bool:
    return options.columns is None or name in options.columns


# Names, ids and numbers of each kind of source --------------------------------------------------


def _column_names(given: Any, options: Options) -> list[str]:
    if isinstance(given, str | os.PathLike):
        return _safely(_names_of_file, Path(given), options)
    if isinstance(given, Mapping):
        names = list(given)
    elif hasattr(given, "columns") and hasattr(given, "__arrow_c_stream__"):
        names = list(given.columns)
    else:
        raise FileRejected(
            f"its owner gives a {type(given).__name__}: a dict of columns, a frame of pandas or "
            "polars, or the path of a .csv, .tsv or .parquet is needed"
        )
    if wrong := [name for name in names if not isinstance(name, str)]:
        raise FileRejected(f"a name of a column is a {type(wrong[0]).__name__}, not a text")
    return names


def _cells(given: Any, names: Sequence[str], options: Options) -> list[Sequence[Any]]:
    """The cells of some columns, as Python's own objects."""
    if isinstance(given, str | os.PathLike):
        return _safely(_cells_of_file, Path(given), names, options)
    columns = [given[name] for name in names]
    return [one.tolist() if hasattr(one, "tolist") else list(one) for one in columns]


def _numbers(given: Any, names: list[str], options: Options) -> tuple[list[str], Tensor]:
    """The names and numbers, as float32, of columns as their kinds encode them."""
    if isinstance(given, Mapping):
        if options.kinds is not None or options.missing != "error":
            raise FileRejected("columns= with kinds and missing= are for files and frames")
        return names, torch.stack([_column(given[name], name) for name in names], 1)
    declared = dict(zip(options.columns or (), options.kinds or (), strict=False))
    kinds: dict[str, Kind] = {
        name: declared.get(name, Guess(missing=options.missing)) for name in names
    }
    chosen = replace(options, columns=tuple(kinds), kinds=tuple(kinds.values()), missing="error")
    if not isinstance(given, str | os.PathLike) or _is_parquet(Path(given)):
        chosen = replace(chosen, csv=None)
    [matrix] = read(given, chosen).tensors.values()
    made = column_names(kinds)
    if len({*made}) < len(made):
        raise FileRejected("an indicator would have the name of another column")
    return made, matrix.to(torch.float32)


def _column(column: Any, name: str) -> Tensor:
    """A column of numbers as float32."""
    try:
        is_tensor = isinstance(column, Tensor)
        values = np.asarray(column.detach().cpu() if is_tensor else column).astype(np.float64)
    except (TypeError, ValueError):
        raise FileRejected(
            f"{name!r} has a cell that is no number: leave such columns out, or encode them"
        ) from None
    if values.ndim != 1:
        raise FileRejected(f"{name!r} is no column: it has {values.ndim} dimensions")
    return torch.from_numpy(values.astype(np.float32))


# Files ------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class _Text(Kind):
    """Cells as they are."""

    def parse(self, cells: Sequence[str], csv: Csv) -> np.ndarray:
        return np.array(cells, dtype=object)

    def encode(self, values: np.ndarray, absent: np.ndarray) -> list[np.ndarray]:
        return [values]


def _safely(action: Callable[..., Any], path: Path, *args: Any) -> Any:
    """Runs a reader; what it raises may quote the file or its path."""
    try:
        return action(path, *args)
    except FileRejected as rejection:
        rejection.path = path
        raise
    except Exception as error:
        raise FileRejected(rejection_of(error).reason, path) from None


def _is_parquet(path: Path) -> bool:
    if not (is_csv(path) or path.suffix.lower() == ".parquet"):
        raise FileRejected(
            OTHERS.get(path.suffix.lower())
            or "its suffix is none of .csv, .csv.gz, .tsv, .tsv.gz and .parquet"
        )
    return not is_csv(path)


def _names_of_file(path: Path, options: Options) -> list[str]:
    if _is_parquet(path):
        schema = require_package("pyarrow.parquet", PYARROW).read_schema(path)
        return list(schema.names)
    names = read_names(path, options)
    if names is None:
        raise FileRejected("its first line has no names of columns")
    return names


def _cells_of_file(path: Path, names: Sequence[str], options: Options) -> list[Sequence[Any]]:
    if _is_parquet(path):
        table = require_package("pyarrow.parquet", PYARROW).read_table(path, columns=list(names))
        return [table.column(name).to_pylist() for name in names]
    kinds = (_Text(),) * len(names)
    budget = Budget(options.budget.limit)
    chosen = replace(options, columns=tuple(names), kinds=kinds, missing="error", budget=budget)
    columns, _ = read_columns(path, chosen)
    return [values.tolist() for column in columns for _, values in column.encoded()]
