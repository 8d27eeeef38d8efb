"""Commitments hide and bind; a coin toss ends the same everywhere or not at all."""

from __future__ import annotations

from functools import partial

import pytest
from tests.crypto.board import Board, Gone, flip

from tacit.crypto import commit, open_commitment, toss_coin
from tacit.errors import CheatingDetected, ProtocolError

SESSION = bytes(range(16))
WHERE = {"session": SESSION, "party": 1, "label": "coin"}


def toss(parties, board=None, **options):
    board = board or Board(parties)
    return board.run(partial(toss_coin, **{"session": SESSION, "label": "test", **options}))


def test_an_opening_gives_the_value_back():
    commitment, opening = commit(b"value", **WHERE)
    assert open_commitment(commitment, opening, **WHERE) == b"value"
    assert len(commitment) == 32


def test_equal_values_give_unrelated_commitments():
    assert len({commit(b"value", **WHERE)[0] for _ in range(100)}) == 100


@pytest.mark.parametrize("value", [b"", b"value"])
def test_any_changed_bit_of_the_opening_or_commitment_is_found(value):
    commitment, opening = commit(value, **WHERE)
    for index in range(len(opening)):
        with pytest.raises(CheatingDetected, match="party 1"):
            open_commitment(commitment, flip(opening, index), **WHERE)
    for index in range(32):
        with pytest.raises(CheatingDetected):
            open_commitment(flip(commitment, index), opening, **WHERE)
    for cut in (opening[:-1], opening + b"\0", b""):
        with pytest.raises(CheatingDetected):
            open_commitment(commitment, cut, **WHERE)


@pytest.mark.parametrize("other", [{"session": bytes(16)}, {"party": 2}, {"label": "coins"}])
def test_a_commitment_is_tied_to_session_party_and_label(other):
    commitment, opening = commit(b"value", **WHERE)
    with pytest.raises(CheatingDetected):
        open_commitment(commitment, opening, **{**WHERE, **other})


def test_an_opening_shorter_than_the_nonce_is_refused_even_if_its_hash_fits(monkeypatch):
    monkeypatch.setattr("tacit.crypto.commitment.NONCE_BYTES", 8)
    commitment, opening = commit(b"", **WHERE)
    monkeypatch.undo()
    with pytest.raises(CheatingDetected):
        open_commitment(commitment, opening, **WHERE)


@pytest.mark.parametrize("parties", [1, 2, 3, 5])
@pytest.mark.parametrize("size", [1, 32, 100])
def test_all_parties_get_the_same_fresh_coin(parties, size):
    first, second = toss(parties, size=size), toss(parties, size=size)
    assert len(set(first)) == 1
    assert len(first[0]) == size
    assert size == 1 or first != second


def test_a_toss_takes_two_rounds():
    board = Board(3)
    toss(3, board)
    assert {entry[0] for entry in board.log} == {0, 1}


def test_every_bit_of_the_coin_is_fair():
    coins = [int.from_bytes(toss(2, size=4)[0], "little") for _ in range(200)]
    for bit in range(32):
        assert 50 < sum(coin >> bit & 1 for coin in coins) < 150  # beyond seven sigma


@pytest.mark.parametrize("bad_round", [0, 1])
@pytest.mark.parametrize("index", [0, 31, 32, 63, 64, 95])
@pytest.mark.parametrize("victims", [(1,), (1, 2)])
def test_a_changed_byte_in_any_message_is_found(bad_round, index, victims):
    """Round 0 is a commitment (32 bytes), round 1 a view digest, a nonce and a value (96)."""

    def tamper(round_, sender, receiver, message):
        wrong = round_ == bad_round and sender == 0 and receiver in victims
        return flip(message, index % len(message)) if wrong else message

    results = toss(3, Board(3, tamper))
    for victim in victims:
        assert isinstance(results[victim], CheatingDetected)
    if bad_round == 0 and len(victims) == 1:  # equivocation is seen by the one not lied to as well
        assert isinstance(results[2], CheatingDetected)


@pytest.mark.parametrize("index", [32, 64, 95])
def test_a_wrong_opening_names_the_party(index):
    def tamper(round_, sender, _receiver, message):
        return flip(message, index) if (round_, sender) == (1, 2) else message

    for result in toss(3, Board(3, tamper))[:2]:
        assert isinstance(result, CheatingDetected)
        assert result.party == 2
        assert "party 2 opened its commitment for 'test'" in str(result)


def test_a_party_that_mirrors_anothers_messages_is_found():
    def mirror(exchange, *, rank, parties):
        if rank == 0:
            return toss_coin(exchange, rank=rank, parties=parties, session=SESSION, label="test")
        commitment = exchange({}, [0])[0]
        exchange({0: commitment}, [])
        return exchange({0: exchange({}, [0])[0]}, [])

    result = Board(2).run(mirror)[0]
    assert isinstance(result, CheatingDetected)
    assert result.party == 1


@pytest.mark.parametrize("bad_round", [0, 1])
def test_a_cut_message_is_refused(bad_round):
    def tamper(round_, sender, _receiver, message):
        return message[:-1] if (round_, sender) == (bad_round, 0) else message

    result = toss(2, Board(2, tamper))[1]
    assert isinstance(result, ProtocolError)
    assert result.party == 0


def test_a_party_that_stops_after_seeing_the_openings_ends_the_toss():
    def stop(exchange, *, rank, parties):
        if rank == 1:
            exchange({0: bytes(32)}, [0])
            return None
        return toss_coin(exchange, rank=rank, parties=parties, session=SESSION, label="test")

    assert isinstance(Board(2).run(stop)[0], Gone)
