"""What Beaver triples add: many parties on plain parts, pooled views, and a dealer that is none."""

from __future__ import annotations

from itertools import combinations

import pytest
import torch
from tests.protocols import views
from tests.protocols.members import run_members
from tests.protocols.pads import bare_messages, unpadded
from tests.protocols.views import EVERY, Message, Recorder

import tacit
from tacit import Session
from tacit.protocols.beaver import io
from tacit.protocols.clients import join_output, split_input
from tacit.testing import ProtocolSuite

PAIRS = list(combinations(range(3), 2))
CHEAP = ("share", "mul", "truncate", "truncate, probabilistic", "inject", "random", "refresh")
# One of each kind of operation, for numbers of parties that the registry's tests do not run.
KINDS = (
    "share_and_reveal",
    "reveal_to_one",
    "random",
    "matmul",
    "truncate",
    "thresholds",
    "parallel",
)


def test_five_parties_conform():
    ProtocolSuite("beaver", parties=5).run(*KINDS)


def test_five_parties_divide_and_compare_quotients():
    """More than two parts wrap more than once, and a comparison needs guard bits."""
    names = "truncation_modes", "products", "sums_of_quotients", "signs_of_quotients"
    for truncation in ("exact", "probabilistic"):
        suite = ProtocolSuite("beaver", parties=5, truncation=truncation)
        suite.run(*names)


# Views -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CHEAP)
@pytest.mark.parametrize("pool", PAIRS)
def test_two_of_three_parties_learn_nothing_together(pool, name):
    assert not bare_messages("beaver", 64, name, receivers=[pool])


@pytest.mark.parametrize("name", ["mul", "matmul", "bit_and", "inject of a quotient"])
def test_no_single_party_learns_anything(name):
    assert not bare_messages("beaver", 64, name)


def test_the_dealer_receives_nothing():
    def main(session: Session) -> tuple[list[Message], bool]:
        found = views.views(session, list(EVERY), 5, 0, 128)
        p = session.protocol
        recorder = Recorder(session)
        opened = p.reveal(p.share(torch.arange(4), 1))
        return [*recorder.take(), *(m for got in found.values() for m in got)], opened is None

    *_, (messages, is_none) = run_members(main, protocol="beaver", fraction_bits=8)
    assert not messages
    assert is_none


def sum_of_quotients(session: Session) -> list[Message]:
    """Party 2 learns the sum of two quotients, of an input of party 0 and one of party 1."""
    recorder, p = Recorder(session), session.protocol
    x, y = (p.share(torch.arange(64), owner, limit=64).divided(3) for owner in (0, 1))
    quotients = [p.truncate(one, exact=False) for one in (x, y)]
    recorder.take()
    p.reveal(p.add(*quotients), 2)
    return recorder.take()


def test_a_reveal_tells_the_sum_of_the_parts_only(monkeypatch):
    """All messages but the last have masks of their own; the last follows from what is revealed."""
    assert not unpadded(sum_of_quotients, 2, told=1, protocol="beaver")
    monkeypatch.setattr(io, "hidden_part", lambda context, own, *_, **__: own.contiguous())
    assert unpadded(sum_of_quotients, 2, told=1, protocol="beaver")


# Input and output --------------------------------------------------------------------------------


def test_parts_of_an_input_are_uniform_and_add_up():
    value = torch.arange(-4000, 4000)

    def main(session: Session) -> torch.Tensor:
        p = session.protocol
        return p.share(value if session.rank == 1 else None, 1, value.shape).parts[p.rank]

    *parts, dealer = run_members(main, protocol="beaver")
    assert torch.equal(sum(parts), value)
    assert not dealer.any()
    for part in parts:
        assert len(part.unique()) == len(part)
        assert 0.45 < (part & 1).double().mean() < 0.55


@pytest.mark.parametrize("parties", [2, 4])
def test_clients(parties):
    value = torch.tensor([0, 1, -1, 2**40])

    def main(session: Session, messages: list[object]) -> torch.Tensor | None:
        p = session.protocol
        return p.for_client(p.mul(p.from_client(messages[session.rank]), p.public(value * 0 + 3)))

    messages = split_input(value, "beaver", parties)
    assert len(messages) == parties + 1
    assert messages[parties].masked is None
    assert not messages[parties].seeds
    answers = tacit.run(main, messages, protocol="beaver", parties=parties)
    assert torch.equal(join_output(answers, "beaver", parties), value * 3)
