"""`session.private_lookups`: rows of a secret table, at places that one party knows.

NOTE [sparse]: how many words are sent for B texts of L words each, with a table of V rows of d
numbers; in brackets for B = 32, L = 128, V = 519,820, d = 32, and how many multiplications.

| way                              | words                  |               | multiplications |
|----------------------------------|------------------------|---------------|-----------------|
| counts of all rows               | B V                    | (17 million)  | 532 million     |
| two short one-hot rows a word    | B L 2 sqrt((d + 1) V)  | (34 million)  | 68,000 million  |
| hidden rows, the first time      | V d                    | (17 million)  | none            |
| hidden rows, each time           | B L (d + 2) + B E      | (270 thousand)| 4 million       |

E is how many rows were taken so far, at least B L. As it grows, so does what a call sends; after as
many words as the table has, the table is hidden anew. That is at most twice the best average.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..errors import ConfigError
from ..fixedpoint import Numbers, Value
from ..protocols.hidden_table import HiddenRows
from ..tensor import SecretTensor


class PrivateLookups:
    """Sums of rows of a secret table, which one party names; nobody learns rows or places.

    Public are how many places are asked for, in how many sums. What a call sends depends on that
    alone: a row that was asked for before is asked for again by the place of another row, and
    counted among those that are there. Rows that differ from call to call cannot be recorded by
    `session.repeated`. A protocol without hidden rows (`can_hide_rows`) shares counts of all rows.
    """

    def __init__(self, numbers: Numbers, table: Tensor, owner: int) -> None:
        if not isinstance(table, SecretTensor) or table.dim() != 2:
            raise ConfigError(
                f"a table of shape {tuple(table.shape)}",
                limit="a secret tensor of two dimensions, rows of numbers",
                subject="private_lookups",
            )
        self._n, self._table, self._owner = numbers, table.value, owner
        self._forget()

    def sums(self, index: Tensor | None, shape: Sequence[int] | None = None) -> Tensor:
        """Returns the sum of the rows that each row of the owner's index names; -1 names none.

        Parties that do not own the places give an index of the same shape, whose values are
        ignored, or None and the shape. Exact. Three rounds, and one for a secret to settle.
        """
        sums, places = self._form(index, shape)
        own = self._checked(index) if self._n.protocol.rank == self._owner else None
        if self._n.trace is not None:
            self._n.trace.refuse("it asks for rows that were not asked for before")
        if not self._n.protocol.can_hide_rows(self._owner):
            slots = self._table.shape[0]
            return self._secret(self._counted(own, sums, slots, None), self._table)
        self._take(own, sums * places)
        assert self._rows is not None
        return self._secret(self._counted(own, sums, self._num_taken, self._slots), self._rows)

    def _form(self, index: Tensor | None, shape: Sequence[int] | None) -> tuple[int, int]:
        given = index.shape if index is not None else torch.Size(shape or ())
        if len(given) != 2:
            raise ConfigError(
                f"places of shape {tuple(given)}",
                limit="a row of places for each sum: two dimensions",
                subject="private_lookups",
            )
        sums, places = given
        return sums, places

    def _checked(self, index: Tensor | None) -> Tensor:
        """The owner's places."""
        count = self._table.shape[0]
        if index is None or index.dtype != torch.int64:
            raise ConfigError(
                "the owner's places", limit="a tensor of int64", subject="private_lookups"
            )
        if bool(((index < -1) | (index >= count)).any()):
            raise ConfigError(
                "a place that is no row of the table",
                limit=f"rows 0 to {count - 1}, and -1 for none",
                subject="private_lookups",
            )
        return index

    def _forget(self) -> None:
        """Begins anew, with a table whose rows were not asked for."""
        self._hidden: HiddenRows | None = None
        self._rows: Value | None = None  # those taken so far
        self._num_taken = self._words_sent = 0
        self._slots = torch.full(self._table.shape[:1], -1)  # at the owner: where a row is in them

    def _take(self, own: Tensor | None, places: int) -> None:
        """Takes as many rows as places are asked for: those that are missing, and any others."""
        p, (count, width) = self._n.protocol, self._table.shape
        if self._words_sent > count * width or self._num_taken + places > count:
            self._forget()
        if self._hidden is None:
            self._hidden = p.hide_rows(self._n.settled(self._table).arith, self._owner)
        new = min(places, count - self._num_taken)
        rows = None if own is None else self._missing(own, new)
        taken = Value(p.take_hidden(self._hidden, rows, new), self._table.dtype)
        self._rows = (
            taken
            if self._rows is None
            else self._n.combined([self._rows, taken], lambda parts: torch.cat(parts))
        )
        self._num_taken += new

    def _missing(self, own: Tensor, new: int) -> Tensor:
        """At the owner: `new` rows that were not taken, among them all that are asked for."""
        is_asked = torch.zeros_like(self._slots, dtype=torch.bool)
        is_asked[own[own >= 0]] = True
        missing = self._slots < 0
        rows = torch.cat([(missing & is_asked).nonzero(), (missing & ~is_asked).nonzero()])
        rows = rows.flatten()[:new]
        self._slots[rows] = torch.arange(self._num_taken, self._num_taken + new)
        return rows

    def _counted(self, own: Tensor | None, sums: int, slots: int, slot_of: Tensor | None) -> Value:
        """Returns how often each sum counts each slot, as the owner's secret."""
        self._words_sent += sums * slots
        counts = None
        if own is not None:
            named = (own >= 0).to(torch.int64)
            where = own.clamp_min(0) if slot_of is None else slot_of[own.clamp_min(0)].clamp_min(0)
            counts = torch.zeros(sums, slots, dtype=torch.int64).scatter_add(1, where, named)
        return self._n.share(counts, self._owner, (sums, slots), torch.int64)

    def _secret(self, counts: Value, rows: Value) -> Tensor:
        return SecretTensor(self._n.matmul(counts, rows), self._n)
