"""Errors say who, not only which number."""

from __future__ import annotations

import pytest

from tacit.errors import ConfigError, HandshakeMismatch, PeerTimeout
from tacit.runtime.deploy.party_names import named, put_names

NAMES = ("alice", "bob", "carol")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("party 1 sent nothing", "party 1 (bob) sent nothing"),
        ("party 2 ended it, says party 0", "party 2 (carol) ended it, says party 0 (alice)"),
        ("party 1 (10.0.0.1:7000) is away", "party 1 (bob, 10.0.0.1:7000) is away"),
        ("party 1 (bob) is away", "party 1 (bob) is away"),
        ("party 7 is a stranger", "party 7 is a stranger"),
        ("no party at all", "no party at all"),
    ],
)
def test_names_stand_beside_ranks(text, wanted):
    error = ConfigError(text)
    put_names(error, NAMES)
    assert str(error) == wanted
    put_names(error, NAMES)
    assert str(error) == wanted


def test_the_party_at_fault_is_named_and_nothing_else_changes():
    error = HandshakeMismatch("the settings differ", field="ring", party=1, operation=3)
    with pytest.raises(HandshakeMismatch) as found, named(NAMES):
        raise error
    assert found.value is error
    assert str(error) == "party 1 (bob): the settings differ"
    assert (error.field, error.party, error.operation) == ("ring", 1, 3)


def test_errors_of_others_are_left_alone():
    foreign, empty = LookupError("party 1"), PeerTimeout("")
    put_names(foreign, NAMES)
    put_names(empty, NAMES)
    assert (str(foreign), str(empty)) == ("party 1", "")
