"""Texts of errors in which parties, operations and operators stay values until they are rendered.

A layer that knows only ranks writes `Party(peer) + " went away"`. A layer that knows the names of
the parties sets them in the error, and `render` returns "party 2 (carol) went away". No text is
ever parsed: what a peer sent is a plain string among the pieces, and cannot pose as a party.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field


class Addable:
    """A text, or a part of one, that `+` joins with others."""

    def render(self, names: Sequence[str] = ()) -> str:
        """Returns the plain text, with the names of parties where they are known."""
        raise NotImplementedError

    def __str__(self) -> str:
        return self.render()

    def __add__(self, other: str | Addable) -> Text:
        return Text(pieces(self) + pieces(other))

    def __radd__(self, other: str) -> Text:
        return Text(pieces(other) + pieces(self))


class DealerName(str):
    """The name of a member of a session that is no party: a dealer."""

    __slots__ = ()
    kind = "dealer"


class EnclaveName(DealerName):
    """The name of an enclave that computes for the parties."""

    __slots__ = ()
    kind = "enclave"


@dataclass(frozen=True)
class Party(Addable):
    """A party, a dealer or an enclave, by its rank.

    `note` is shown beside its name, such as an address.
    """

    rank: int
    note: str = field(default="", compare=False)

    def render(self, names: Sequence[str] = ()) -> str:
        """Returns "party 2", "party 2 (carol)", "party 2 (carol, 10.0.0.3:7000)" or "the dealer".

        A name that nobody gave, such as "party2" or "dealer", is not shown.
        """
        name = names[self.rank] if 0 <= self.rank < len(names) else ""
        helper = name.kind if isinstance(name, DealerName) else ""
        known = () if name == (helper or f"party{self.rank}") else (name,)
        beside = ", ".join(dict.fromkeys(text for text in (*known, self.note) if text))
        who = f"the {helper}" if helper else f"party {self.rank}"
        return who + (f" ({beside})" if beside else "")


ROUND_BITS = 16  # of an operation's number, for the round within a call


@dataclass(frozen=True)
class Operation(Addable):
    """An operation of the protocol, by the number that its messages have.

    That is the number of the call, and of the round in it in the last ROUND_BITS bits. What the
    parties say before the first call has numbers below.
    """

    number: int

    def render(self, names: Sequence[str] = ()) -> str:
        """Returns "operation 5", or "round 2 of operation 5" for another round than the first."""
        call, place = divmod(self.number, 1 << ROUND_BITS)
        if not call:
            return f"operation {place}"
        return f"round {place + 1} of operation {call}" if place else f"operation {call}"


@dataclass(frozen=True)
class Operator(Addable):
    """An operator of torch, by its name."""

    name: str

    def render(self, names: Sequence[str] = ()) -> str:
        """Returns the name, such as "aten.mm.default"."""
        return self.name


@dataclass(frozen=True, repr=False)
class Text(Addable):
    """Several pieces in a row."""

    pieces: tuple[str | Addable, ...]

    def __repr__(self) -> str:
        return repr(str(self))  # torch shows the `args` of an error in some of its own

    def render(self, names: Sequence[str] = ()) -> str:
        """Returns the pieces in one string."""
        return "".join(rendered(piece, names) for piece in self.pieces)


Phrase = str | Addable


def pieces(phrase: Phrase) -> tuple[str | Addable, ...]:
    """Returns the pieces of a phrase."""
    return phrase.pieces if isinstance(phrase, Text) else (phrase,)


def joined(separator: str, phrases: Iterable[Phrase]) -> Text:
    """Returns the phrases with the separator between them, as `str.join` does."""
    found: list[str | Addable] = []
    for phrase in phrases:
        found += [separator, *pieces(phrase)] if found else pieces(phrase)
    return Text(tuple(found))


def rendered(phrase: Phrase, names: Sequence[str] = ()) -> str:
    """Returns a phrase as a plain string."""
    return phrase if isinstance(phrase, str) else phrase.render(names)


def mentions(phrase: Phrase, mark: Addable) -> bool:
    """Whether this party, operation or operator stands in the phrase."""
    return mark in pieces(phrase)
