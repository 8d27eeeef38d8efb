"""What a join returns: columns of two owners in rows that belong together, all secret."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from ...errors import ConfigError


class Joined:
    """A table of secret columns, and a secret mark for each row that is one.

    Shape and names are public. Rows that match nothing are zeros in all columns and in `matched`,
    which is 1.0 for the others: use it as the weight of a row. After `size="reveal"` every row
    matches.
    """

    def __init__(self, names: Sequence[str], table: Tensor, matched: Tensor) -> None:
        self.names, self.table, self.matched = tuple(names), table, matched

    def __len__(self) -> int:
        return self.table.shape[0]

    def __getitem__(self, columns: str | Sequence[str]) -> Tensor:
        """Returns one column, or for a list of names a matrix (rows, columns)."""
        if isinstance(columns, str):
            return self.table[:, self._place(columns)]
        return self.table[:, [self._place(name) for name in columns]]

    def _place(self, name: str) -> int:
        if name not in self.names:
            raise ConfigError(
                f"{name!r} is no column of the joined table",
                limit=f"its columns are {', '.join(map(repr, self.names))}",
                subject="join",
            )
        return self.names.index(name)

    def __repr__(self) -> str:
        return f"Joined({len(self)} rows, columns {', '.join(map(repr, self.names))})"
