"""What parties tell each other about a recording: short texts, checked before they are used."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import NamedTuple

from ...errors import Party, ProtocolError

MOST_CALLS = 1 << 40  # in a session; messages have 48 bits for the number of a call


def text_of(party: int, data: bytes) -> str:
    """Returns the text that a party has sent. Raises ProtocolError if it is none."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise misleading(party, "what it knows of a repeated function") from None


def encode_places(sets: Sequence[Set[int]]) -> str:
    """Returns sets of places among the arguments of a function as a text."""
    return ";".join(" ".join(map(str, sorted(one))) for one in sets)


def decode_places(party: int, text: str, num_sets: int, num_arguments: int) -> list[Set[int]]:
    """Returns the sets that a party tells. Raises ProtocolError if it does not tell so many."""
    try:
        sets: list[Set[int]] = [frozenset(map(int, one.split())) for one in text.split(";")]
    except ValueError:
        sets = []
    if len(sets) != num_sets or any(not 0 <= i < num_arguments for one in sets for i in one):
        raise misleading(party, "what it does with the arguments of a repeated function")
    return sets


class Outcome(NamedTuple):
    """The number of the last call after a capture, and why it failed; empty if it did not."""

    number: int
    obstacle: str


def decode_outcome(party: int, text: str) -> Outcome:
    """Returns what a party tells of its capture. Raises ProtocolError if it does not."""
    number, _, obstacle = text.partition(" ")
    is_number = number.isascii() and number.isdecimal() and len(number) <= 13
    if not is_number or int(number) >= MOST_CALLS:
        raise misleading(party, "how many calls it has made")
    return Outcome(int(number), obstacle)


def misleading(party: int, what: str) -> ProtocolError:
    """Returns the error for a text in which a party does not tell something."""
    return ProtocolError(Party(party) + " does not tell " + what, party=party)
