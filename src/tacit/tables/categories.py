"""Columns of text: each cell is one of the texts that all parties have declared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from ..errors import ConfigError
from .csv_text import CellRejected, Csv, is_missing
from .kinds import Kind


@dataclass(frozen=True)
class Category(Kind):
    """One of the declared texts, as a column of 0 and 1 for each of them (float32).

    codes: instead, its place in the list, as losses take classes (int64). other: one more category
    for every other text. renamed: other texts that mean a declared one, such as {"m": "male"}. A
    missing cell is 0 in all columns, or takes the text of `missing`.
    """

    values: Sequence[object]
    codes: bool = False
    other: bool = False
    renamed: Mapping[object, object] = field(default_factory=dict, hash=False)

    WORDS: ClassVar[tuple[str, ...]] = ("error", "indicator")
    VALUES: ClassVar[tuple[type, ...]] = ()

    def __post_init__(self) -> None:
        if isinstance(self.values, str) or not self.values:
            raise ConfigError(f"{self!r}", limit="a list of texts is needed", subject="Category")
        texts = tuple(str(value).strip() for value in self.values)
        if len(set(texts)) < len(texts):
            raise ConfigError(f"{self!r}", limit="a text is declared once", subject="Category")
        object.__setattr__(self, "values", texts)  # as text, so that all parties compare the same
        object.__setattr__(self, "missing", str(self.missing))
        renamed = {str(word).strip(): str(text).strip() for word, text in self.renamed.items()}
        if not {*renamed.values()} <= {*texts} or {*renamed} & {*texts}:
            limit = "renamed= gives a declared text for each that is not declared"
            raise ConfigError(f"{self!r}", limit=limit, subject="Category")
        object.__setattr__(self, "renamed", dict(sorted(renamed.items())))
        if self.missing not in texts:
            super().__post_init__()

    def places(self) -> dict[object, int]:
        """Returns the place of each declared text, and of those that mean one."""
        places = {text: place for place, text in enumerate(self.values)}
        return places | {word: places[text] for word, text in self.renamed.items()}

    def names(self, name: str) -> list[str]:
        values = [*self.values, "other"] if self.other else self.values
        made = [name] if self.codes else [f"{name}={value}" for value in values]
        return [*made, f"{name} missing"] if self.missing == "indicator" else made

    def knows(self, cell: str) -> bool:
        return cell.strip() in self.places()

    def parse(self, cells: Sequence[str], csv: Csv) -> np.ndarray:
        places = self.places()
        codes = [places.get(cell.strip(), -1) for cell in cells]
        for row, cell in enumerate(cells):
            if codes[row] < 0 and is_missing(cell):
                reason = 'a cell is empty: missing="indicator" or a declared text takes such'
                raise CellRejected(reason, row)
            if codes[row] < 0 and not self.other:
                reason = (
                    "a cell is none of the declared texts: renamed={...} says which one it means, "
                    "other=True takes all such"
                )
                raise CellRejected(reason, row)
        return np.array([len(self.values) if code < 0 else code for code in codes], np.int64)

    def encode(self, values: np.ndarray, absent: np.ndarray) -> list[np.ndarray]:
        nothing = 0 if self.codes else -1  # -1 is none of the categories
        codes = np.where(absent, self.places().get(self.missing, nothing), values)
        if self.codes:
            return self.with_indicator([codes.astype(np.int64)], absent)
        count = len(self.values) + self.other
        columns = [(codes == place).astype(np.float32) for place in range(count)]
        return self.with_indicator(columns, absent)
