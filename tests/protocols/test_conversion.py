"""Secrets from one form of share to another: right, at the declared cost, and hidden as inputs are.

That nobody learns anything is shown for every protocol with its other operations ("from_parts" of
`views.py`); here, for two of three parties that pool what they see.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest
import torch
from tests.protocols.members import run_members
from tests.protocols.pads import bare_messages

from tacit import Session
from tacit.errors import ConfigError
from tacit.kernels import bit_planes
from tacit.protocols import Additive, Arith, Bool, Replicated, Trio, convert
from tacit.protocols.beaver.protocol import Beaver
from tacit.protocols.cost import Cost, side_by_side
from tacit.protocols.forms import (
    DEALT_PARTS,
    MASKED_PARTS,
    OWN_PARTS,
    THREE_PARTS,
    givers,
    held_parts,
)

EDGES = [0, 1, -1, 2**31 - 1, -(2**31)]


def secrets(p: Any) -> list[Arith | Bool]:
    """A quotient that waits for its division, a sum of inputs of all parties, and bits."""
    values = torch.tensor(EDGES, dtype=p.ring.dtype)
    total = p.share(values, 0)
    for owner in range(1, p.parties):
        total = p.add(total, p.share(values * 0 + owner, owner))
    product = p.mul(p.share(torch.arange(5), 0, limit=8), p.public(torch.full((5,), 16)))
    bits = p.share_bits(bit_planes(torch.arange(70), 7), p.parties - 1, (70,), 7)
    return [product.divided(4), total, bits]


def wanted(p: Any) -> list[torch.Tensor]:
    values = torch.tensor(EDGES, dtype=p.ring.dtype) + sum(range(p.parties))
    return [torch.arange(5), values, torch.arange(70)]


@pytest.mark.parametrize("ring", [64, 32])
@pytest.mark.parametrize("parties", [2, 3, 5])
def test_masks_become_plain_parts_and_masks_again(parties, ring):
    def main(session: Session) -> list[bool]:
        masked, plain = session.protocol, Beaver(session.protocol.context)
        found = []
        for first, second in ((masked, plain), (plain, masked)):
            for x, want in zip(secrets(first), wanted(first), strict=True):
                moved = convert(x, first, second)
                back = convert(moved, second, first)
                got = [second.reveal(moved, to_dealer=True), first.reveal(back, to_dealer=True)]
                found += [torch.equal(one, want.to(one.dtype)) for one in got]
        return found

    settings = {"protocol": "additive", "parties": parties, "ring": ring, "fraction_bits": 8}
    for found in run_members(main, **settings):
        assert found == [True] * 12


def test_two_parties_and_their_dealer_take_over_what_three_parties_hold():
    """Without a message where the form is the same; from `trio` to plain parts, too."""

    def main(session: Session) -> list[bool]:
        p = session.protocol
        members: list[Any] = [Trio(p.context), Replicated(p.context), Additive(p.context)]
        plain, found = Beaver(p.context), []
        for q in members:
            x = q.share(torch.arange(9), 0)
            found.append(convert(x, q, members[0]) is x)
            found.append(torch.equal(p.reveal(x, to_dealer=True), torch.arange(9)))
            moved = convert(x, p, plain)
            found.append(torch.equal(plain.reveal(moved, to_dealer=True), torch.arange(9)))
        return found

    for found in run_members(main, protocol="additive", parties=2):
        assert found == [True] * 9


@pytest.mark.parametrize("parties", [2, 3])
def test_costs(parties):
    """Plain parts cost nothing; masks are an input of each party, all in one round."""
    n = 100

    def main(session: Session) -> list[tuple[Cost, Cost]]:
        masked: Any = session.protocol
        plain = Beaver(masked.context)
        x, found = masked.share(torch.arange(n), 0), []
        every = range(parties)
        for q, declared in (
            (plain, side_by_side(plain.costs.share(n, owner) for owner in every)),
            (masked, side_by_side(masked.costs.share(n, owner) for owner in every)),
        ):
            source = masked if q is plain else plain
            with session.stats.scope("conversion") as spent:
                x = convert(x, source, q)
            sent = {(session.rank, i, False): 8 * one.bytes_sent for i, one in spent.peers.items()}
            found.append((Cost(spent.rounds, {k: v for k, v in sent.items() if v}), declared))
        return found

    for rank, found in enumerate(run_members(main, protocol="additive", parties=parties)):
        (free, _), (counted, declared) = found
        assert free == Cost()
        assert counted.bits == {link: n for link, n in declared.bits.items() if link[0] == rank}
        assert counted.rounds == (declared.rounds if rank < parties else 0)


@pytest.mark.parametrize("pool", list(combinations(range(3), 2)))
@pytest.mark.parametrize("protocol", ["additive", "beaver"])
def test_two_of_three_parties_learn_nothing_from_a_conversion(protocol, pool):
    assert not bare_messages(protocol, 64, "from_parts", receivers=[pool])


def test_parties_that_lack_parts_are_refused():
    def main(session: Session) -> None:
        p = session.protocol
        with pytest.raises(ConfigError, match="do not hold every part"):
            p.from_parts({session.rank: torch.arange(3)}, held_parts(OWN_PARTS, 3), (3,))

    run_members(main, protocol="additive", parties=2)


def test_who_gives_what():
    assert givers(held_parts(THREE_PARTS, 3), 3) == {1: [0], 0: [1, 2]}
    assert givers(held_parts(THREE_PARTS, 3), 2) == {1: [0], 0: [1, 2]}
    assert givers(held_parts(MASKED_PARTS, 4), 3) == {0: [0, 3], 1: [1], 2: [2]}
    assert givers(held_parts(OWN_PARTS, 3), 3) == {0: [0], 1: [1], 2: [2]}
    assert givers(held_parts(OWN_PARTS, 3), 2) == {}
    assert givers(held_parts(DEALT_PARTS, 3), 2) == {0: [0], 1: [1]}
    assert held_parts(THREE_PARTS, 4) is None
    assert held_parts("plain value", 1) is None
