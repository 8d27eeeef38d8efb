"""`session.private_lookups`: sums of rows are exact, and cost the same in every table."""

from __future__ import annotations

import pytest
import torch

import tacit
from tacit import Session
from tacit.errors import PartyFailed

COUNT = 60
TABLE = torch.randn(COUNT, 4, generator=torch.Generator().manual_seed(11))
SETTINGS = [("trio", 3), ("replicated", 3), ("additive", 2), ("beaver", 2), ("quad", 4)]


def calls(number: int) -> list[torch.Tensor]:
    """Places with repetitions in a sum, between sums and between calls, and some of no row."""
    generator = torch.Generator().manual_seed(12)
    return [torch.randint(-1, COUNT, (3, 5), generator=generator) for _ in range(number)]


def exact_sums(table: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    padded = torch.cat([table, torch.zeros(1, table.shape[1])])  # -1 is the last row
    return padded[index].double().sum(1)


def looked_up(session: Session, owner: int) -> list[torch.Tensor]:
    """The numbers of the table, and the sums of more calls than it has rows for."""
    table = session.share(TABLE, owner=0)
    lookups = session.private_lookups(table, owner)
    mine = [index if session.rank == owner else None for index in calls(9)]
    return session.reveal([table, *(lookups.sums(index, (3, 5)) for index in mine)])


@pytest.mark.parametrize(
    ("protocol", "parties", "owner"),
    [(name, parties, owner) for name, parties in SETTINGS for owner in (0, parties - 1)],
)
def test_sums_are_exact(protocol, parties, owner):
    for found in tacit.run(looked_up, owner, protocol=protocol, parties=parties):
        numbers, *sums = found
        for one, index in zip(sums, calls(9), strict=True):
            assert one.double().equal(exact_sums(numbers, index))


def test_sums_in_an_enclave():
    numbers, *sums = tacit.run(looked_up, 1, protocol="enclave", parties=2)[0]
    for one, index in zip(sums, calls(9), strict=True):
        torch.testing.assert_close(one, exact_sums(numbers, index).float(), atol=1e-4, rtol=1e-4)


def sent(session: Session, count: int, indices: list[torch.Tensor]) -> list[int]:
    """The bytes that this party sends in each call, for a table of `count` rows."""
    lookups = session.private_lookups(session.share(torch.zeros(count, 2), owner=0), owner=1)
    found = []
    for index in indices:
        with session.stats.scope("call") as cost:
            session.numbers.settled(lookups.sums(index).value)
        found.append(cost.bytes_sent)
    return found


def test_a_call_costs_what_it_looks_up():
    small, large = (tacit.run(sent, count, calls(3)) for count in (10 * COUNT, 100 * COUNT))
    assert [party[1:] for party in small] == [party[1:] for party in large]
    dealer = [party[0] for party in (small[0], large[0])]
    assert dealer[1] - dealer[0] == 8 * 2 * 90 * COUNT  # the table, once


def test_messages_do_not_depend_on_repeated_places():
    same = [torch.zeros(3, 5, dtype=torch.int64)] * 3
    assert tacit.run(sent, COUNT, same) == tacit.run(sent, COUNT, calls(3))


@pytest.mark.parametrize(
    ("index", "message"),
    [
        (torch.tensor([[COUNT]]), "no row of the table"),
        (torch.tensor([[-2]]), "no row of the table"),
        (torch.tensor([[1.0]]), "int64"),
        (torch.tensor([1]), "two dimensions"),
    ],
)
def test_places_that_do_not_fit_are_refused(index, message):
    def main(session):
        session.private_lookups(session.share(TABLE, owner=0), owner=1).sums(index)

    with pytest.raises(PartyFailed, match=message) as failed:
        tacit.run(main)
    assert str(COUNT) + "]" not in str(failed.value)


def test_a_public_table_is_refused():
    with pytest.raises(PartyFailed, match="a secret tensor of two dimensions"):
        tacit.run(lambda session: session.private_lookups(TABLE, owner=1))
