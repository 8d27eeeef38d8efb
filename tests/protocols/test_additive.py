"""What `additive` adds to masked evaluation: many parties, a dealer that is none, pooled views."""

from __future__ import annotations

import pytest
import torch
from tests.protocols.members import run_members
from tests.protocols.pads import bare_messages, unpadded
from tests.protocols.test_dealt import CHEAP, PAIRS
from tests.protocols.views import EVERY, Message, Recorder

import tacit
from tacit import Session
from tacit.errors import ConfigError, PartyFailed
from tacit.protocols import Replicated, Trio
from tacit.protocols.additive import io
from tacit.testing import ProtocolSuite

# Any number of parties ---------------------------------------------------------------------------


@pytest.mark.parametrize("ring", [64, 32])
def test_five_parties_conform(ring):
    outcomes = ProtocolSuite("additive", ring=ring, parties=5).outcomes()
    assert not [error for error in outcomes.values() if error is not None]


@pytest.mark.full("five parties; this is the largest number")
def test_sixteen_parties_conform():
    names = "share_and_reveal", "reveal_to_one", "random", "matmul", "signs"
    ProtocolSuite("additive", parties=16).run(*(n for n in names if n in tacit.testing.CHECKS))


@pytest.mark.parametrize("parties", [1, 17])
def test_other_numbers_of_parties_are_refused(parties):
    with pytest.raises(ConfigError, match="2 to 16 parties"):
        tacit.run(lambda session: None, parties=parties, protocol="additive")


# Views -------------------------------------------------------------------------------------------


@pytest.mark.full("every operation; the quick test takes one of each kind")
@pytest.mark.parametrize("name", sorted(EVERY.keys() - {*CHEAP["additive"], "hide_rows"}))
def test_two_of_three_parties_learn_nothing_from_any_operation(name):
    """A pair with the owner of hidden rows knows both the mask and the order that it is sent."""
    pool, ring = PAIRS[len(name) % 3], (64, 32)[len(name) % 2]
    pool = (0, 1) if name == "hide_rows of party 2" else pool
    assert not bare_messages("additive", ring, name, receivers=[pool])


def sum_of_two(session: Session) -> list[Message]:
    """Party 2 learns the sum of an input of party 0 and one of party 1."""
    recorder, p = Recorder(session), session.protocol
    x, y = p.share(torch.arange(64), 0), p.share(torch.arange(64) * 3, 1)
    p.reveal(p.add(x, y), 2)
    return recorder.take()


def bits_of_two(session: Session) -> list[Message]:
    recorder, p = Recorder(session), session.protocol
    x, y = (p.share_bits(torch.arange(3).view(3, 1), owner, (64,), 3) for owner in (0, 1))
    p.reveal(p.bit_xor(x, y), 2)
    return recorder.take()


@pytest.mark.parametrize("program", [sum_of_two, bits_of_two])
def test_a_reveal_tells_the_sum_of_the_masks_only(program, monkeypatch):
    """All messages but the last have masks of their own; the last follows from what is revealed.

    The control sends the masks themselves: then the receiver could open both inputs.
    """
    assert not unpadded(program, 2, told=1, protocol="additive")
    monkeypatch.setattr(io, "hidden_mask", lambda p, x, senders: p.own_mask(x).contiguous())
    assert unpadded(program, 2, told=1, protocol="additive")


# The dealer's side of a program -------------------------------------------------------------------


def test_what_parties_learn_is_unknown_to_the_dealer_unless_it_is_told():
    def main(session: Session) -> list[object]:
        x = session.share(torch.tensor([1.5, -2.0]), owner=0)
        flags, labels = x > 0, session.share(torch.tensor([3, 4]), owner=1)
        plain = [session.reveal(one) for one in (x, flags, labels)]
        told = session.reveal(x, to_dealer=True)
        return [*(one.tolist() for one in plain), told.tolist(), session.reveal(x, to=0) is None]

    first, second, dealer = run_members(main, protocol="additive", parties=2)
    assert first == [[1.5, -2.0], [True, False], [3, 4], [1.5, -2.0], False]
    assert second[:4] == first[:4]
    unknown, flags, labels, told, is_none = dealer
    assert all(number != number for number in unknown)
    assert (flags, labels, told, is_none) == ([False, False], [0, 0], [1.5, -2.0], True)


def test_a_program_that_computes_with_a_revealed_value_is_told():
    """The dealer does not know it, so it would deal for another program: PublicMismatch."""

    def main(session: Session) -> torch.Tensor:
        x = session.share(torch.tensor([1.5, -2.0]), owner=0)
        mean = session.reveal(x.mean(), to_dealer=to_dealer)
        return session.reveal((x - mean) * (x - mean))

    to_dealer = True
    found = tacit.run(main, protocol="additive", parties=2)[0]
    torch.testing.assert_close(found, torch.tensor([3.0625, 3.0625]), atol=1e-3, rtol=0)
    to_dealer = False
    with pytest.raises(PartyFailed, match="does not learn revealed values"):
        tacit.run(main, protocol="additive", parties=2)


@pytest.mark.parametrize("ring", [64, 32])
def test_the_shares_of_two_parties_and_their_dealer_are_those_of_three_parties(ring):
    """Other protocols of the same members go on with them, without a message, and back."""

    def main(session: Session) -> list[torch.Tensor]:
        p, found = session.protocol, []
        x, y = p.share(torch.arange(-50, 50), 0, limit=64), p.share(torch.arange(100), 1, limit=128)
        others = [Trio(p.context, roles=(2, 0, 1)), Trio(p.context), Replicated(p.context)]
        for q in others:
            z = q.settled(q.mul(x, y))
            bit = q.sign(z)
            found += [p.reveal(p.relu(z), to_dealer=True), p.reveal(bit, to_dealer=True)]
            back = p.settled(p.mul(x, y))
            found.append(q.reveal(q.relu(q.add(z, back))))
        return found

    product = torch.arange(-50, 50) * torch.arange(100)
    wanted = [product.clamp(min=0), product < 0, (2 * product).clamp(min=0)] * 3
    settings = {"protocol": "additive", "parties": 2, "ring": ring, "fraction_bits": 8}
    for found in run_members(main, **settings):
        assert all(torch.equal(one.to(w.dtype), w) for one, w in zip(found, wanted, strict=True))
