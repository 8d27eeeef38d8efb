"""Made-up data in the place of files that are not on this machine.

The numbers are quantiles of the normal distribution in a scattered order, the same in each run.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...errors import ConfigError
from ...tables import Category, Date, Integer, Kind, Truth

Columns = dict[str, Kind | None] | None  # the kinds of columns, by name

GOLDEN = 0.6180339887498949  # multiples of it, mod 1, are spread evenly
YEAR = 365
KINDS = ".csv, .csv.gz and .npy"


class StandIns:
    """The files that stand in for others.

    sizes: for each name of a file "1000x13" (its shape), or "1000:age,weight" (rows and names of
    columns). A file without an entry has the shape that `session.load` expects. folder: where they
    are written. made: those that were used so far, with their sizes.
    """

    def __init__(self, sizes: Mapping[str, str], folder: Path) -> None:
        self._sizes, self._folder, self._lock = sizes, folder, Lock()
        self.made: dict[str, str] = {}

    def source_for(self, source: Any, options: dict[str, Any], ids: Sequence[str] = ()) -> Any:
        """Returns what `load` or `join` is given if it is here, else the path of a stand-in.

        options: those of the call; how the owner's file is written is not true of a stand-in.
        ids: columns of ids, which count from 0, so that rows of two stand-ins match.
        """
        if not isinstance(source, str | Path) or Path(source).exists():
            return source
        name = Path(source).name
        shape, columns = self._form(name, options)
        if columns and not {*ids} <= {*columns}:
            raise ConfigError(
                f"the stand-in of {name} has no column of ids",
                limit=f"a join by {', '.join(ids)} needs it",
                remedy=f"give --stand-in {name}=ROWS:{','.join(ids)},NAME",
            )
        made = self._folder / name.removesuffix(".gz")
        with self._lock:
            _write(made, shape, columns, options.get("dtype"), ids)
            self.made[name] = "x".join(map(str, shape))
        options.pop("csv", None)
        return made

    def _form(self, name: str, options: Mapping[str, Any]) -> tuple[list[int], Columns]:
        """The shape of a file, and the names and kinds of its columns if it has any."""
        chosen = options.get("columns")
        columns: Columns = dict(chosen) if isinstance(chosen, Mapping) else None
        if isinstance(chosen, list | tuple) and all(isinstance(one, str) for one in chosen):
            columns = dict.fromkeys(chosen)
        size, expected = self._sizes.get(name), options.get("shape")
        if size is not None:
            rows, _, listed = size.partition(":")
            if listed:
                columns = {one: (columns or {}).get(one) for one in listed.split(",")}
            return _numbers(name, rows, columns), columns
        if isinstance(expected, Sequence) and None not in expected:
            return [expected[0], len(columns)] if columns else list(expected), columns
        raise ConfigError(
            f"the file {name} is not here, and the size of its stand-in is not known",
            remedy=f"give --stand-in {name}=ROWSxCOLUMNS, or ROWS:NAME,NAME for columns of a .csv",
        )


def _numbers(name: str, text: str, columns: Columns) -> list[int]:
    try:
        shape = [int(size) for size in text.split("x")]
    except ValueError:
        raise ConfigError(
            f"the stand-in of {name} has the size {text!r}",
            limit="numbers with x between them, such as 1000x13, are needed",
        ) from None
    return [shape[0], len(columns)] if columns else shape


def _write(path: Path, shape: list[int], columns: Columns, dtype: Any, ids: Sequence[str]) -> None:
    numbers = normal(shape)
    if isinstance(dtype, torch.dtype) and not dtype.is_floating_point:
        numbers = (numbers > 0).to(dtype)
    if path.suffix == ".npy":
        np.save(path, numbers.numpy())
    elif path.suffix == ".csv" and len(shape) == 2:
        columns = columns or dict.fromkeys(f"column{i}" for i in range(shape[1]))
        cells = [
            range(shape[0]) if name in ids else _cells(columns[name], one.tolist())
            for name, one in zip(columns, numbers.T, strict=True)
        ]
        with path.open("w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(columns)
            rows.writerows(zip(*cells, strict=True))
    else:
        raise ConfigError(
            f"a stand-in for {path.name} with {len(shape)} dimensions",
            limit=f"stand-ins are made for {KINDS}; a .csv has two dimensions",
            remedy="put a small file of that name there",
        )


def _cells(kind: Kind | None, numbers: Sequence[float]) -> list[Any]:
    """Returns a column of cells of a kind."""
    rows = range(len(numbers))
    if isinstance(kind, Category):
        return [kind.values[row % len(kind.values)] for row in rows]
    if isinstance(kind, Date):
        days = [kind.start() + timedelta(days=row % YEAR) for row in rows]
        return [day.strftime(kind.formats[0]) if kind.formats else day.isoformat() for day in days]
    return [int(one > 0) for one in numbers] if isinstance(kind, Integer | Truth) else list(numbers)


def normal(shape: Sequence[int]) -> Tensor:
    """Returns numbers that are spread as those of a normal distribution are."""
    count = torch.Size(shape).numel()
    places = (torch.arange(1, count + 1, dtype=torch.float64) * GOLDEN) % 1
    return torch.special.ndtri(places).to(torch.float32).reshape(shape)
