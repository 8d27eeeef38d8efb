"""Rows of a secret table that one party, the owner of the places, takes without telling which.

NOTE [hidden rows]: x = m + a_1 + ... + a_n. The owner is an evaluator o: it knows m and a_o, and
lacks the masks a_e of the other evaluators, which the dealer knows. For each of them owner and
dealer draw an order s_e of the rows and words r_e. The dealer sends evaluator e, ahead, its mask in
that order, a_e[s_e] + r_e: uniform to e, which lacks r_e. To take row i, the owner tells e where i
stands in s_e. As s_e is uniform, and no row is taken twice, these places are uniform among those
not told before. Then e has a_e[i] plus a word of r_e there, and the owner m[i] + a_o[i] minus all
such words. The sum is x[i]; one opening makes it a share.

The table is sent once. After that a row costs a place and its own numbers, and no multiplication.
The dealer learns no place: it receives nothing. Evaluators that put together what they were told
have places in orders that are independent of each other. One that joins the owner knows a_e, and
the owner s_e and r_e: what it was sent tells them nothing new.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ...errors import Party, ProtocolDesync
from ...transport import Spec
from ..hidden_table import HiddenRows
from ..randomness import Stream, common_stream, mask_stream
from ..share import Arith
from ..steps import PASS, PASS_AHEAD, Round, Steps
from .arithmetic import reshare
from .base import MaskedBase

KEY_WORDS = 2  # of 64 bits a row, by which the rows are ordered: no two are equal


def hide_rows(p: MaskedBase, x: Arith, owner: int) -> Steps[HiddenRows]:
    """Returns x so that `owner` can take its rows. 0 rounds; sends x to each other evaluator."""
    x = yield from p.settled.steps(x)
    if owner == p.roles.dealer:
        p = p.with_dealer(p.roles.leader)
    dealer, others = p.roles.dealer, [e for e in p.roles.evaluators if e != owner]
    shape, limit, draws = x.shape, x.limit, p.context.randomness
    if p.rank not in (owner, dealer):
        spec = Spec(tuple(shape), p.ring.dtype)
        [hidden] = (yield Round(receive={dealer: [spec]}, ahead=True))[dealer]
        return HiddenRows(dealer, owner, shape, limit, hidden)
    keys = [((KEY_WORDS, shape[0]), torch.int64)] * len(others)
    orders = map(_order, draws.draws(common_stream("order", owner, dealer), keys))
    hiding = {e: _hiding(p, owner, e) for e in others}
    if p.is_dealer:
        parts = [x.parts[p.roles.mask_of[e]] for e in others]
        moved = [part[order] for part, order in zip(parts, orders, strict=True)]
        send = {
            e: [draws.mask(hiding[e], one, "add")] for e, one in zip(others, moved, strict=True)
        }
        yield Round(send=send, ahead=True)
        return HiddenRows(dealer, owner, shape, limit, None)
    yield PASS_AHEAD
    rows = p.opened(x) + p.own_mask(x)
    places = {e: order.argsort() for e, order in zip(others, orders, strict=True)}
    for e in others:
        rows -= draws.draw(hiding[e], shape, p.ring.dtype)[places[e]]
    return HiddenRows(dealer, owner, shape, limit, rows, places)


def _hiding(p: MaskedBase, owner: int, receiver: int) -> Stream:
    return mask_stream("hidden rows", p.roles.dealer, owner, receiver)


def _order(keys: Tensor) -> Tensor:
    """Returns the order of the rows by their keys of several words."""
    order = keys[0].argsort(stable=True)
    for words in keys[1:]:
        order = order[words[order].argsort(stable=True)]
    return order


def _check_places(places: Tensor, table: HiddenRows) -> None:
    """Raises if the owner tells places that no row stands at."""
    if bool(((places < 0) | (places >= table.shape[0])).any()):
        raise ProtocolDesync(
            Party(table.owner) + " takes a row at a place that is none",
            limit=f"a table of {table.shape[0]} rows",
            remedy="the parties must run the same program",
            party=table.owner,
        )


def take_hidden(p: MaskedBase, table: HiddenRows, rows: Tensor | None, count: int) -> Steps[Arith]:
    """Returns `count` rows that the owner names, all for the first time. 2 rounds.

    The owner sends a place to each other evaluator for each row; then an element each way.
    """
    if table.dealer != p.roles.dealer:
        p = p.with_dealer(table.dealer)
    owner, shape, own = table.owner, (count, *table.shape[1:]), table.rows
    if p.is_dealer:
        yield PASS
    elif p.rank == owner:
        assert rows is not None
        rows = rows.to(p.device)
        yield Round(send={e: [places[rows]] for e, places in table.places.items()})
    else:
        [rows] = (yield Round(receive={owner: [Spec((count,), torch.int64)]}))[owner]
        _check_places(rows, table)

    def add_rows(message: Tensor) -> None:
        assert own is not None
        message += own[rows]

    return (yield from reshare(p, shape, table.limit, add_rows))
