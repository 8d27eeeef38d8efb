"""Bins: which rows of two tables are compared with each other. Everything here is at an owner.

Each row of the first table lies in one of its three candidate bins (cuckoo hashing), and each row
of the second in all three of its own. So two rows with the same id meet in exactly one bin. How
many bins there are, and how many rows each of them takes, follows from the sizes of the tables.

NOTE [candidates]: each third of the bins holds one candidate of every row. The first table has no
valid placement exactly if some k of its rows have fewer than k candidates together (Hall). The
expected number of such sets of k rows bounds the chance: for 1.35 n bins, sets of four rows in
three bins dominate it, 2^-42 for n = 2048 and less for more rows (`tests/runtime/
test_join_bins.py` computes it). Fewer rows get the bins of 2048 rows. For 1.27 n bins, as often
chosen, that bound does not hold.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, lgamma, log, log1p

import numpy as np
import torch
from torch import Tensor

from ...errors import ProtocolError

CANDIDATES = 3
EXPANSION = 1.35  # bins for each row of the first table
FEWEST = 2048  # rows for which there are bins at least
SECURITY_BITS = 40  # what has a chance of 2^-40 is taken for impossible


@dataclass(frozen=True)
class BinSizes:
    """The public sizes of the bins of two tables.

    bins: how many. load: how many rows of the second table a bin takes. key_bits: of the keys that
    are compared. hashed: whether candidates are hashes; else every bin is a candidate of all rows.
    """

    bins: int
    load: int
    key_bits: int
    hashed: bool


@lru_cache(maxsize=64)
def bin_sizes(first: int, second: int) -> BinSizes:
    """Returns the sizes for tables of so many rows; the first should not be the longer one.

    A wrong result needs two different ids with the same key in one bin, and an error a bin that
    overflows, or a first table without a placement: each has a chance of less than 2^-40.
    """
    third = ceil(EXPANSION * max(first, FEWEST) / CANDIDATES)
    bins, load = CANDIDATES * third, _largest_load(second, third)
    hashed = bins * load < first * second
    if not hashed:
        bins, load = max(first, 1), max(second, 1)
    fingerprint = SECURITY_BITS + (bins * load - 1).bit_length()
    return BinSizes(bins, load, fingerprint + 1, hashed)


def _largest_load(rows: int, third: int) -> int:
    """The least load that no bin exceeds but with a chance of 2^-40.

    The load of a bin is binomial: `rows` trials of chance 1 / third. Above the mean, each term of
    the tail is less than rows / (third load) of the term before it.
    """
    load = rows // third + 1
    allowed = -SECURITY_BITS * log(2) - log(CANDIDATES * third)
    while load < rows and _log_tail(rows, third, load) > allowed:
        load += 1
    return min(load, max(rows, 1))


def _log_tail(rows: int, third: int, load: int) -> float:
    """The logarithm of a bound on the chance of more than `load` rows in a bin."""
    least = load + 1
    chosen = lgamma(rows + 1) - lgamma(least + 1) - lgamma(rows - least + 1)
    term = chosen - least * log(third) + (rows - least) * log1p(-1 / third)
    return term - log1p(-rows / (third * (least + 1)))


@dataclass(frozen=True)
class Placement:
    """Where the rows of one table lie: row rows[i] in bin bins[i], place slots[i] of it.

    Sorted by bin. load: the places of each bin.
    """

    rows: np.ndarray
    bins: np.ndarray
    slots: np.ndarray
    load: int

    def filled(self, values: Tensor, empty: int, start: int, stop: int) -> Tensor:
        """Returns the values of the rows in bins [start, stop), and `empty` in free places.

        values: (rows, ...). The result: (stop - start, load, ...).
        """
        low, high = np.searchsorted(self.bins, (start, stop))
        part = slice(low, high)
        made = torch.full((stop - start, self.load, *values.shape[1:]), empty, dtype=values.dtype)
        where = torch.from_numpy(self.bins[part] - start), torch.from_numpy(self.slots[part])
        made[where] = values[torch.from_numpy(self.rows[part])]
        return made


def place_once(candidates: np.ndarray | None, sizes: BinSizes, rows: int) -> Placement:
    """Returns each row of the first table in one of its candidate bins, one row in each bin."""
    bins = np.arange(rows) if candidates is None else _cuckoo(candidates, sizes.bins)
    order = np.argsort(bins, kind="stable")
    return Placement(order, bins[order], np.zeros(rows, np.int64), 1)


def place_all(candidates: np.ndarray | None, sizes: BinSizes, rows: int) -> Placement:
    """Returns each row of the second table in all of its candidate bins."""
    if candidates is None:
        candidates = np.broadcast_to(np.arange(sizes.bins), (rows, sizes.bins))
    owners = np.repeat(np.arange(rows), candidates.shape[1])
    order = np.argsort(candidates.reshape(-1), kind="stable")
    bins = candidates.reshape(-1)[order]
    slots = np.arange(len(bins)) - np.searchsorted(bins, bins)
    if slots.max(initial=0) >= sizes.load:
        raise _unlucky("a bin takes more rows than it has places for")
    return Placement(owners[order], bins, slots, sizes.load)


def _cuckoo(candidates: np.ndarray, bins: int) -> np.ndarray:
    """Returns a bin for each row, all different. Fails only if there is no such placement.

    A row takes the nearest free bin: a breadth-first search over the rows that would have to move.
    """
    choices: list[list[int]] = candidates.tolist()
    occupant = [-1] * bins
    for row in range(len(choices)):
        _insert(row, choices, occupant)
    placed = np.array(occupant)
    found = np.empty(len(choices), np.int64)
    taken = np.flatnonzero(placed >= 0)
    found[placed[taken]] = taken
    return found


def _insert(row: int, choices: list[list[int]], occupant: list[int]) -> None:
    """Puts a row in one of its bins; rows on the shortest path to a free bin move along it."""
    came_from = dict.fromkeys(choices[row], -1)
    queue = deque(choices[row])
    while queue:
        place = queue.popleft()
        if occupant[place] < 0:
            while (before := came_from[place]) >= 0:
                occupant[place] = occupant[before]
                place = before
            occupant[place] = row
            return
        for other in choices[occupant[place]]:
            if other not in came_from:
                came_from[other] = place
                queue.append(other)
    raise _unlucky("the rows of the first table have no placement in their bins")


def _unlucky(reason: str) -> ProtocolError:
    return ProtocolError(
        reason,
        limit=f"the chance of this is less than 2^-{SECURITY_BITS} for each join",
        remedy="run it again: new hash functions are drawn",
        subject="join",
    )
