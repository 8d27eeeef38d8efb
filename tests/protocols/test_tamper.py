"""The tamper harness of `tacit.testing`: what it changes arrives, in any protocol."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from tests.tiers import FULL
from torch import Tensor

from tacit import Session
from tacit.errors import ConfigError, PeerClosed, ProtocolDesync, ProtocolError, TransportError
from tacit.testing import (
    DELIVERY,
    WORDS,
    Corruption,
    Manipulation,
    Sent,
    manipulations_of,
    messages_of,
    run_corrupted,
)
from tacit.testing.manipulations import changed_words

PROTOCOLS = pytest.mark.parametrize("protocol", ["trio", "replicated", "additive"])
PLAIN = torch.tensor([6, -20, 0])


def product(session: Session) -> Iterator[Tensor]:
    p = session.protocol
    x, y = p.share(torch.tensor([2, 5, 0]), 0), p.share(torch.tensor([3, -4, 7]), 1)
    yield p.reveal(p.mul(x, y))


def summed(session: Session) -> Iterator[Tensor]:
    p = session.protocol
    yield p.reveal(p.add(p.share(PLAIN, 0), p.share(PLAIN, 1)))


def sent_by(party: int, protocol: str, operation: str) -> Sent:
    """The first message of a party in an operation, which has words."""
    found = messages_of(product, protocol=protocol)
    return next(s for s in found if (s.party, s.operation) == (party, operation) and s.words)


@PROTOCOLS
def test_an_honest_run_opens_what_is_right(protocol):
    for ending in run_corrupted(product, None, protocol=protocol):
        assert torch.equal(ending.opened[0], PLAIN)
        assert (ending.error, ending.changed) == (None, False)


@PROTOCOLS
def test_parties_that_compare_nothing_open_a_changed_message(protocol):
    """The harness can do harm: these protocols are for parties that follow them."""
    how = Manipulation(sent_by(1, protocol, "bilinear").number, "add 12345")
    endings = run_corrupted(product, Corruption(1, (how,)), protocol=protocol)
    assert endings[1].changed
    wrong = [ending.opened[0] - PLAIN for ending in endings if ending.error is None]
    assert any(12345 in change.abs().tolist() for change in wrong)


@PROTOCOLS
@pytest.mark.parametrize("kind", DELIVERY)
def test_a_message_that_does_not_come_once_and_in_order_ends_the_run(protocol, kind):
    how = Manipulation(sent_by(1, protocol, "bilinear").number, kind)
    settings, errors = {"protocol": protocol, "deadline": 0.5}, []
    for ending in run_corrupted(product, Corruption(1, (how,)), **settings):
        assert all(torch.equal(value, PLAIN) for value in ending.opened)
        errors.append(ending.error)
    assert any(errors)
    assert all(e is None or issubclass(e, TransportError | ProtocolError) for e in errors)


def test_a_party_can_run_another_program():
    endings = run_corrupted(product, Corruption(2, program=summed))
    assert [ending.opened for ending in endings] == [()] * 3
    assert all(issubclass(e.error or object, ProtocolDesync | ProtocolError) for e in endings)


def test_a_party_can_be_changed_before_it_begins():
    def leaving(session: Session) -> None:
        raise ConfigError("I want no part in this")

    endings = run_corrupted(product, Corruption(0, deviation=leaving))
    assert [ending.opened for ending in endings] == [()] * 3
    assert [ending.error for ending in endings] == [ConfigError, PeerClosed, PeerClosed]


def test_messages_are_listed():
    found = messages_of(product)
    assert [(s.party, s.number) for s in found] == sorted((s.party, s.number) for s in found)
    assert {sent.operation for sent in found} == {"share", "bilinear", "reveal"}
    inputs = [sent for sent in found if sent.operation == "share"]
    assert all(sent.shapes == ((3,),) for sent in inputs)
    assert "share" in repr(inputs[0])


def test_manipulations_of_words_change_one_tensor_in_form():
    one, two = torch.arange(5), torch.arange(5, 10)
    words = (one, two, torch.empty(0, dtype=torch.int64), torch.ones(2, dtype=torch.int32))
    sent = Sent(0, 4, 1, "mul", 0, words)
    found = manipulations_of(sent, WORDS)
    assert {how.number for how in found} == {4}
    assert {how.tensor for how in found} == {0, 1, 3}
    for how in found:
        made = changed_words(words, how)
        assert [(t.shape, t.dtype) for t in made] == [(t.shape, t.dtype) for t in words]
        changed = [not torch.equal(a, b) for a, b in zip(made, words, strict=True)]
        assert sum(changed) == {"replay": 0, "exchange two tensors": 2}.get(how.kind, 1), how


def test_one_word_is_shifted_by_a_constant():
    words = [torch.zeros(3, dtype=torch.int32)]
    for kind, by in (("add 1", 1), ("add 12345", 12345), ("add the top bit", -(2**31))):
        [made] = changed_words(words, Manipulation(0, kind))
        assert sorted(made.tolist()) == sorted([0, 0, by])
    [flipped] = changed_words(words, Manipulation(0, "flip a bit", seed=3))
    assert sum(bin(word & 0xFFFFFFFF).count("1") for word in flipped.tolist()) == 1


def test_an_empty_message_can_be_dropped_only():
    found = manipulations_of(Sent(0, 0, 1, "", 0, ()))
    assert tuple(how.kind for how in found) == DELIVERY


# Calls in flight --------------------------------------------------------------------------------

SQUARES = (torch.arange(-6, 6) ** 2 - 9).relu().split(4)


def in_flight(session: Session) -> Iterator[Tensor]:
    x = session.share(torch.arange(-6, 6), owner=0)
    for y in session.map(lambda batch: (batch * batch - 9).relu(), x.split(4)):
        yield session.reveal(y)


def test_changed_messages_of_calls_in_flight_are_noticed_before_a_reveal():
    """All views are compared before each reveal, also while other calls are in flight."""
    listed = messages_of(in_flight, protocol="quad")
    sent = [one for one in listed if manipulations_of(one, WORDS)]
    step = 3 if FULL else len(sent) // 12
    for one in sent[::step]:
        how = manipulations_of(one, WORDS)[0]
        endings = run_corrupted(
            in_flight, Corruption(one.party, (how,)), protocol="quad", deadline=5.0
        )
        honest = [ending for ending in endings if ending is not endings[one.party]]
        assert endings[one.party].changed
        assert any(ending.error is not None for ending in honest), (one, how)
        for ending in honest:  # after the last comparison nothing is left to open
            assert ending.error is not None or len(ending.opened) == len(SQUARES), (one, how)
            assert all(map(torch.equal, ending.opened, SQUARES)), (one, how)
