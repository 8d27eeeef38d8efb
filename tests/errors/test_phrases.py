"""Texts with ranks in them: rendered with the names of parties, and never parsed."""

from __future__ import annotations

import pytest

from tacit.errors import (
    ConfigError,
    Error,
    HandshakeMismatch,
    Operation,
    Party,
    PeerClosed,
    joined,
    naming_parties,
)

NAMES = ("alice", "bob", "carol")


@pytest.mark.parametrize(
    ("reason", "plain", "named"),
    [
        (Party(1) + " sent nothing", "party 1 sent nothing", "party 1 (bob) sent nothing"),
        (
            Party(2) + " ended it, says " + Party(0),
            "party 2 ended it, says party 0",
            "party 2 (carol) ended it, says party 0 (alice)",
        ),
        (
            "at " + Operation(3) + ", " + Party(1, "10.0.0.1:7000") + " is away",
            "at operation 3, party 1 (10.0.0.1:7000) is away",
            "at operation 3, party 1 (bob, 10.0.0.1:7000) is away",
        ),
        (Party(7) + " is a stranger", "party 7 is a stranger", "party 7 is a stranger"),
        ("no party at all", "no party at all", "no party at all"),
        (
            joined(" and ", [Party(0), Party(1)]),
            "party 0 and party 1",
            "party 0 (alice) and party 1 (bob)",
        ),
    ],
)
def test_names_stand_beside_ranks(reason, plain, named):
    error = ConfigError(reason)
    assert str(error) == plain
    error.names = NAMES
    assert str(error) == named


def test_names_that_nobody_gave_are_left_out():
    assert (Party(1) + " is gone").render(("party0", "party1")) == "party 1 is gone"


@pytest.mark.parametrize("text", ["party 1", "{party}", "%s", "Party(1)", "\\x00party 1"])
def test_what_a_peer_says_is_never_a_rank(text):
    error = PeerClosed(Party(2) + f" said {text}", party=2)
    error.names = NAMES
    assert str(error) == f"party 2 (carol) said {text}"


def test_the_party_at_fault_is_named_in_any_case():
    error = HandshakeMismatch("the settings differ", field="ring", party=1, operation=3)
    with pytest.raises(HandshakeMismatch) as found, naming_parties(NAMES):
        raise error
    assert found.value is error
    assert str(error) == "party 1 (bob): the settings differ at operation 3"
    assert (error.field, error.party, error.operation) == ("ring", 1, 3)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "operation 0"),
        (15, "operation 15"),
        (73 << 16, "operation 73"),
        ((73 << 16) + 2, "round 3 of operation 73"),
    ],
)
def test_an_operation_is_called_by_its_call_and_its_round(number, text):
    assert Operation(number).render() == text
    assert str(Error("it broke", operation=number)) == f"it broke at {text}"
