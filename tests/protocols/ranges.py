"""Which bytes of which streams a party uses, and whether any of them hide two messages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from hashlib import sha256
from itertools import pairwise
from typing import Any, NamedTuple

from torch import Tensor

from tacit import Session
from tacit.kernels import StreamKey
from tacit.protocols.randomness import Stream


class Use(NamedTuple):
    """Bytes [start, end) of a stream, for the call of this number."""

    key: str  # a digest of the key that was used in fact
    stream: Stream
    number: int
    start: int
    end: int


def watch(session: Session) -> list[Use]:
    """Returns a list to which all words that a party takes from now on are added."""
    streams: Any = session.protocol.context.streams
    fill, mask, uses = streams.fill, streams.mask, []

    def note(source: Stream, words: Tensor, operation: int, offset: int) -> None:
        key = streams._ready.get(source) or streams._key(source)
        digest = sha256(key.key if isinstance(key, StreamKey) else key).hexdigest()
        uses.append(Use(digest, source, operation, offset, offset + words.nbytes))

    def watched_fill(source: Stream, words: Tensor, operation: int, offset: int) -> None:
        note(source, words, operation, offset)
        fill(source, words, operation, offset)

    def watched_mask(source: Stream, values: Tensor, how: str, operation: int, offset: int) -> None:
        note(source, values, operation, offset)
        mask(source, values, how, operation, offset)

    streams.fill, streams.mask = watched_fill, watched_mask
    return uses


def overlaps(uses: Iterable[Use]) -> list[tuple[Use, Use]]:
    """Returns the uses of the same bytes under one key."""
    ordered = sorted(uses, key=lambda use: (use.key, use.number, use.start))
    return [
        (a, b)
        for a, b in pairwise(ordered)
        if (a.key, a.number) == (b.key, b.number) and a.end > b.start
    ]


def hidden_twice(by_party: Sequence[Iterable[Use]]) -> list[tuple[Use, Use]]:
    """Returns the uses by which messages of two parties, or two of one, hide behind equal words.

    By the parties' own programs, whatever the others run: a party hides messages with the streams
    that name it as the sender.
    """
    hiding = [
        use for rank, uses in enumerate(by_party) for use in uses if use.stream.sender == rank
    ]
    return overlaps(hiding)


def differences(by_party: Sequence[Iterable[Use]]) -> list[tuple[Stream, int]]:
    """Returns the streams, by call, of which two holders use different bytes: in step, none."""
    drawn: dict[tuple[Stream, int], dict[int, set[tuple[int, int]]]] = {}
    for rank, uses in enumerate(by_party):
        for _, stream, number, start, end in uses:
            parties = drawn.setdefault((stream, number), defaultdict(set))
            parties[rank].add((start, end))
    return [
        (stream, number)
        for (stream, number), parties in drawn.items()
        if parties.keys() != stream.holders or len(set(map(frozenset, parties.values()))) > 1
    ]
