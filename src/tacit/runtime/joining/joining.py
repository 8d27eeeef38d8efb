"""`session.join` and `session.intersect`: rows of two owners that have the same id."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ...errors import ConfigError, Party
from ...fixedpoint import Numbers
from ...nn import reveal
from ...tensor import SecretTensor
from ..files.contents import Options
from .announcing import Announced, announce
from .bins import BinSizes, bin_sizes, place_all, place_once
from .compaction import compacted
from .ids import SEED_BYTES, candidate_bins, hashed_ids, keys
from .joined import Joined
from .matching import Side, matched_bins
from .own_table import OwnTable

REVEAL = "reveal"
Size = int | str | None


def join(
    n: Numbers,
    tables: tuple[Any, Any],
    owners: tuple[int, int],
    on: str | Sequence[str],
    size: Size,
    options: Options,
) -> Joined:
    """Returns the rows of two tables that have the same id, in as many rows as are public."""
    names, owners = _checked(n, owners, on)
    if not (size in (None, REVEAL) or (type(size) is int and size > 0)):
        raise ConfigError(
            f"size={size!r}", limit='a number of rows, "reveal" or None', subject="join"
        )
    arguments = {"on=": repr(names), "owners=": repr(owners), "size=": repr(size)}
    own, announced = announce(n, tables, owners, names, options, arguments=arguments)
    most = min(announced[0].rows, announced[1].rows)
    if size == REVEAL or (isinstance(size, int) and size < most):
        n.protocol.context.reveal_policy.require(None)  # before anything is shared
    # The shorter table has a bin for each of its rows: there are fewer bins then.
    order = (0, 1) if announced[0].rows <= announced[1].rows else (1, 0)
    first, second, sizes = _sides(n, own, announced, owners, order)
    matched, numbers = matched_bins(n, first, second, sizes)
    marks = SecretTensor(matched, n)
    columns = torch.cat([SecretTensor(numbers[order.index(side)], n) for side in (0, 1)], 1)
    found = Joined([*announced[0].names, *announced[1].names], columns, marks.to(torch.float32))
    if size is None:
        return found
    return _resized(n, found, marks, size, most)


def intersect(
    n: Numbers,
    tables: tuple[Any, Any],
    owners: tuple[int, int],
    on: str | Sequence[str],
    to: int,
    options: Options,
) -> Tensor | None:
    """Returns, at the owner `to`, which rows of its table have an id that the other table has."""
    names, owners = _checked(n, owners, on)
    if to not in owners:
        raise ConfigError(
            f"to={to!r}", limit="one of the two owners learns which rows match", subject="join"
        )
    arguments = {"on=": repr(names), "owners=": repr(owners), "to=": repr(to)}
    n.protocol.context.reveal_policy.require(to)
    own, announced = announce(n, tables, owners, names, options, arguments=arguments, ids_only=True)
    order = (0, 1) if to == owners[0] else (1, 0)
    first, second, sizes = _sides(n, own, announced, owners, order)
    matched, _ = matched_bins(n, first, second, sizes)
    revealed = reveal(n, SecretTensor(matched, n), to)
    if first.placement is None:
        return None
    found = torch.empty(announced[order[0]].rows, dtype=torch.bool)
    found[first.placement.rows] = revealed[first.placement.bins].bool()
    return found


def _checked(
    n: Numbers, owners: tuple[int, int], on: str | Sequence[str]
) -> tuple[list[str], tuple[int, int]]:
    """The names of the columns of ids, and the owners."""
    if n.trace is not None:
        n.trace.refuse("it joins tables")
    names = [on] if isinstance(on, str) else list(on)
    if not names or not all(isinstance(name, str) for name in names):
        raise ConfigError(
            f"on={on!r}", limit="the name of a column, or a list of names", subject="join"
        )
    if owners[0] == owners[1]:
        raise ConfigError(
            "both tables are of " + Party(owners[0]),
            limit="a join is of two owners",
            remedy="an owner can join its own tables in plain",
            subject="join",
        )
    return names, owners


def _sides(
    n: Numbers,
    own: OwnTable | None,
    announced: tuple[Announced, Announced],
    owners: tuple[int, int],
    order: tuple[int, int],
) -> tuple[Side, Side, BinSizes]:
    """The two tables in their bins, the one whose rows lie in one bin each first.

    The seed of the hash functions is drawn after both tables were read.
    """
    sizes = bin_sizes(*(announced[side].rows for side in order))
    seed = n.public_words((SEED_BYTES // 8,)).cpu().numpy().tobytes()
    sides = []
    for side, place in zip(order, (place_once, place_all), strict=True):
        columns = len(announced[side].names)
        if own is None or n.protocol.rank != owners[side]:
            sides.append(Side(owners[side], columns))
            continue
        hashes = hashed_ids(own.ids, seed)
        placement = place(candidate_bins(hashes, sizes), sizes, len(own.ids))
        words = keys(hashes, sizes, n.ring.bits)
        sides.append(Side(owners[side], columns, placement, words, own.numbers))
    return sides[0], sides[1], sizes


def _resized(
    n: Numbers,
    joined: Joined,
    marks: SecretTensor,
    size: int | str,
    most: int,
) -> Joined:
    """The matching rows first, in as many rows as `size` says; at most as the shorter table has.

    "reveal" opens how many rows match. A number opens the bit whether more rows match than that,
    unless the tables are too short for it.
    """
    if size == REVEAL:
        rows = int(reveal(n, marks.sum(), to_dealer=True))
    else:
        rows = min(int(size), most)
        if rows < most and bool(reveal(n, marks.sum() > rows, to_dealer=True)):
            raise ConfigError(
                f"size={size}: more rows match",
                remedy='a larger size=, or size="reveal", which tells all parties how many match',
                subject="join",
            )
    whole = torch.cat([joined.matched.unsqueeze(1), joined.table], 1)
    table = compacted(whole, marks)[:rows]
    return Joined(joined.names, table[:, 1:], table[:, 0])
