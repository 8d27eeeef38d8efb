"""The chosen columns of a table: collected in parts, then encoded as their kinds say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce

import numpy as np
import torch
from torch import Tensor

from ...tables import CellRejected, Csv, Guess, Kind
from ...tables.csv_text import TAKEN, is_missing
from .contents import Contents, FileRejected, Options, single, to_sharable_dtype


@dataclass
class Column:
    """A column that is read: its place in the table, its name if it has one, and what it holds."""

    place: int
    name: str
    kind: Kind
    _values: list[np.ndarray] = field(default_factory=list)
    _absent: list[np.ndarray] = field(default_factory=list)

    @property
    def width(self) -> int:
        """How many columns of numbers it becomes."""
        return len(self.kind.names(""))

    def __str__(self) -> str:
        return f"column {self.place + 1}" + (f" ({self.name!r})" if self.name else "")

    def add_text(self, cells: Sequence[str], csv: Csv) -> None:
        """Adds cells of text; raises CellRejected for the first that the kind does not take."""
        try:
            self.add(self.kind.parse(cells, csv), np.zeros(len(cells), bool))
            return
        except CellRejected:
            absent = np.array([is_missing(cell) and not self.kind.knows(cell) for cell in cells])
            if not absent.any():
                raise
        present = np.flatnonzero(~absent).tolist()
        try:
            found = self.kind.parse([cells[row] for row in present], csv)
        except CellRejected as rejection:
            raise CellRejected(rejection.reason, present[rejection.row or 0]) from None
        values = np.zeros((len(cells), *found.shape[1:]), found.dtype)
        values[present] = found
        self.add(values, absent)

    def add(self, values: np.ndarray, absent: np.ndarray) -> None:
        """Adds values; raises CellRejected for the first missing one, if none may be."""
        if self.kind.missing == "error" and absent.any():
            raise CellRejected(f"a cell is empty or NaN: {TAKEN}", int(absent.argmax()))
        self._values.append(values)
        self._absent.append(absent)

    def encoded(self) -> list[tuple[str, np.ndarray]]:
        """Returns the columns of numbers, each with its name."""
        if not self._values:
            raise FileRejected("it has no rows")
        try:
            made = self.kind.encode(np.concatenate(self._values), np.concatenate(self._absent))
        except CellRejected as rejection:
            row = "" if rejection.row is None else f", row {rejection.row}"
            raise FileRejected(rejection.reason, place=f" at {self}{row}") from None
        return list(zip(self.kind.names(self.name), made, strict=True))


def chosen_columns(names: Sequence[str] | None, count: int, options: Options) -> list[Column]:
    """Returns the columns to read, in order; all but those of without= if none is chosen."""
    kinds = options.kinds
    if options.columns is None:
        left_out = {_place(column, names, count, "without") for column in options.without}
        places = [place for place in range(count) if place not in left_out]
        _require_names(names, places)
    else:
        places = [_place(column, names, count, "columns") for column in options.columns]
    if not places:
        raise FileRejected("without= leaves no column")
    shown = [names[place] if names else "" for place in places]
    kinds = kinds or (Guess(missing=options.missing),) * len(places)
    return [Column(*each) for each in zip(places, shown, kinds, strict=True)]


def _require_names(names: Sequence[str] | None, places: Sequence[int]) -> None:
    if names is None:
        return
    used = [names[place] for place in places]
    if "" in used:
        raise FileRejected(
            "a column has no name: without=[its number, from 0 on] leaves it out, or columns= "
            "chooses others",
            place=f" at column {places[used.index('')] + 1}",
        )
    for place, name in zip(places, used, strict=True):
        if used.count(name) > 1:
            raise FileRejected(
                "several of its columns have the same name: without=[the number of one, from 0 on] "
                "leaves it out",
                place=f" at column {place + 1} ({name!r})",
            )


def _place(column: str | int, names: Sequence[str] | None, count: int, argument: str) -> int:
    if isinstance(column, int):
        if column not in range(count):
            raise FileRejected(
                f"{argument}={column}: it has fewer columns, which count from 0",
                place=f", {count} columns",
            )
        return column
    if names is None:
        raise FileRejected(f"it has no names of columns: {argument}= takes numbers, from 0 on")
    if column not in names:
        raise FileRejected(f"{argument}={column!r}: it has no column of that name")
    if names.count(column) > 1:
        raise FileRejected(f"{argument}={column!r}: several of its columns have that name")
    return names.index(column)


def table_contents(
    columns: Sequence[Column], options: Options, *, is_named: bool, is_text: bool = False
) -> Contents:
    """Returns a dict of columns, or a matrix if columns were chosen or have no names.

    is_text: real numbers of text become float32, those of other tables keep their dtype.
    """
    made = [(name, _tensor(values, is_text)) for c in columns for name, values in c.encoded()]
    if is_named and options.columns is None:
        if len(dict(made)) < len(made):
            raise FileRejected("an indicator would have the name of another column")
        return Contents("dict", dict(made))
    dtype = reduce(torch.promote_types, [tensor.dtype for _, tensor in made])
    return single(torch.stack([tensor.to(dtype) for _, tensor in made], dim=1))


def _tensor(values: np.ndarray, is_text: bool) -> Tensor:
    real = is_text and values.dtype == np.float64
    return to_sharable_dtype(torch.from_numpy(values.astype(np.float32) if real else values))
