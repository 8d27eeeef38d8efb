"""Parties that differ all raise one error: it names the item, its values and the parties."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence

import pytest
from tests.transport.parties import run

from tacit.errors import ConfigError, HandshakeMismatch, ProtocolDesync, naming_parties
from tacit.transport import Mesh
from tacit.transport.consensus import MAX_QUOTED, agree, all_gather, decode_all

NAMES = ("alice", "bob", "carol")


def error_of(tables: Sequence[dict[str, str]]) -> HandshakeMismatch:
    """The error that all parties raise alike where each holds one of the tables."""

    def program(mesh: Mesh) -> None:
        with naming_parties(NAMES):
            agree(mesh, tables[mesh.rank], error=HandshakeMismatch)

    errors = run("memory", program, 3)
    assert all(type(error) is HandshakeMismatch for error in errors), errors
    assert len({str(error) for error in errors}) == 1
    return errors[0]


@pytest.mark.parametrize("parties", [1, 2, 3])
def test_equal_items_take_one_round(parties: int) -> None:
    def program(mesh: Mesh) -> int:
        agree(mesh, {"a": "1", "b": "2"})
        return mesh.stats.rounds

    assert run("memory", program, parties).values() == [int(parties > 1)] * parties


@pytest.mark.parametrize("deviating", range(3))
def test_the_party_that_deviates_from_the_majority_is_named(deviating: int) -> None:
    tables = [{"a": "1", "b": "2"} for _ in range(3)]
    tables[deviating]["b"] = "3"
    error = error_of(tables)
    assert (error.field, error.party) == ("b", deviating)
    assert f"'3' at party {deviating} ({NAMES[deviating]})" in str(error)
    assert "'2' at party" in str(error)


def test_an_item_that_one_party_lacks_differs() -> None:
    error = error_of([{"a": "1"}, {"a": "1"}, {}])
    assert (error.field, error.party) == ("a", 2)
    assert "nothing at party 2 (carol)" in str(error)


def test_another_order_of_items_differs() -> None:
    error = error_of([{"a": "1", "b": "2"}, {"a": "1", "b": "2"}, {"b": "2", "a": "1"}])
    assert "the order of items at position 0: 'a' at party 0 (alice) and 'b' at" in str(error)


def test_quoted_values_are_short_and_printable() -> None:
    error = error_of([{"a": "1"}, {"a": "1"}, {"a": "\x1b[2J" + "x" * 10_000}])
    assert len(str(error)) < 2 * MAX_QUOTED
    assert str(error).isprintable()


@pytest.mark.parametrize("where", [0, MAX_QUOTED, 5 * MAX_QUOTED])
def test_a_difference_is_found_wherever_it_is_in_a_value(where: int) -> None:
    def program(mesh: Mesh) -> None:
        value = "a" * where + str(mesh.rank) + "b" * 10
        agree(mesh, {"settings": value}, topic="save")

    errors = run("memory", program, 3)
    assert [type(error) for error in errors] == [ConfigError] * 3
    assert len({str(error) for error in errors}) == 1
    assert str(errors[0]).startswith("save: the parties differ in settings: '")
    assert len(str(errors[0])) < 3 * MAX_QUOTED


MALFORMED = [b"", b"\xff", b"[]", b"5", b"[" * 100_000, json.dumps({"a": 1})[:-1].encode()]


@pytest.mark.parametrize("message", [*MALFORMED, *map(zlib.compress, MALFORMED[3:])])
def test_a_malformed_table_is_a_desync(message: bytes) -> None:
    def program(mesh: Mesh) -> None:
        if mesh.rank == 1:
            all_gather(mesh, bytes(32))
            all_gather(mesh, message)
            mesh._channels[0].last_word(30.0)
            mesh._channels[2].last_word(30.0)
        else:
            agree(mesh, {"a": "1"})

    zero, _, two = run("memory", program, 3)
    assert any(isinstance(error, ProtocolDesync) for error in (zero, two))
    assert zero.party == two.party == 1


def test_a_party_that_contradicts_its_digest_is_named() -> None:
    def program(mesh: Mesh) -> None:
        if mesh.rank == 1:
            all_gather(mesh, bytes(32))
            all_gather(mesh, zlib.compress(json.dumps([["a", "1"]]).encode()))
            mesh._channels[0].last_word(30.0)
        else:
            agree(mesh, {"a": "1"})

    error = run("memory", program)[0]
    assert isinstance(error, ProtocolDesync)
    assert "party 1 sent the digest of other items and then the same items" in str(error)


def test_messages_are_decoded_by_rank() -> None:
    def program(mesh: Mesh) -> list[int]:
        return decode_all(all_gather(mesh, b"%d" % mesh.rank), int)

    assert run("memory", program, 3).values() == [[0, 1, 2]] * 3
