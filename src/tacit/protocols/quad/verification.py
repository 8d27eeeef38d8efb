"""What several parties know and compare: running hashes, and the comparison before every reveal.

Each value that more than one party knows is added to the hash of those who compare it, in the order
of the calls. `verify` compares all hashes before anything is opened, kept or finished; a difference
is CheatingDetected at all honest parties.

NOTE [hidden hashes]: nobody is shown a hash. After a wrong message an honest party may know a value
that differs from the right one by an error times a secret; whoever sent the message could try all
such values, and compare their hashes with the one that it is shown. So for each receiver, each two
parties i < j draw r and s that only they know. Party i adds r h + s to what it sends, and party j
subtracts r h + s, where h is the hash of what both know; the receiver adds up what all have for
it, modulo a prime. The sum is zero if all hashes are equal. If those of two honest parties
differ, then it is uniform, whatever the cheating party sends, which knows neither their r nor what
they send to others: so every honest party notices it, and the cheating one learns nothing else.
Which hashes differ stays unknown: that could depend on secrets.

NOTE [checksums]: where a party computes on a GPU, SHA-256 would need all values on the processor.
There a pair adds up checksums modulo 2^61 - 1 (`kernels/checksum.py`), under a table of random
numbers and with new random factors for each part of a tensor. Values that differ have equal sums
with a probability of 2^-59 at most, if whoever changed them knows neither. So each pair has its
own: a party of three viewers that knew those of the two others could choose a change that their
checksums do not show.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial
from itertools import combinations
from typing import Protocol

import torch
from torch import Tensor

from ...errors import ROUND_BITS, CheatingDetected, Operation
from ...kernels import checksum
from ...kernels.checksum import PART_WORDS
from ...transport import Spec
from ..context import Context
from ..randomness import common_stream
from ..steps import Round, Steps

DIGEST = TOTAL = Spec((4,), torch.int64)
PRIME = (1 << 255) - 19
WORDS = 8  # of a number that is drawn, so that it is uniform modulo the prime but for 2^-256

JOINED_BYTES = 1 << 20  # up to which several values are hashed as one: fewer kernels

Viewers = tuple[int, ...]


class Hash(Protocol):
    """A running hash."""

    def update(self, data: memoryview, /) -> None: ...


class Verifying(Protocol):
    """What a comparison of views needs of a protocol."""

    rank: int
    parties: int
    device: torch.device
    context: Context
    views: Views


class Views(ABC):
    """The hashes of what this party knows together with others.

    agreed: the operation up to which all views were compared and equal.
    """

    agreed = 0

    @abstractmethod
    def add(self, viewers: Viewers, values: Sequence[Tensor], *, alike: Viewers = ()) -> None:
        """Adds values that all viewers know, of whom this party is one.

        alike: two of them that know equal values as long as both are honest: they need not compare.
        """

    @abstractmethod
    def digest(self, pair: Viewers) -> bytes:
        """Returns the hash of everything that both of a pair know."""

    def agree(self, total: int, operation: int) -> bool:
        """Returns whether all views are equal, by their sum; notes the operation if they are."""
        self.agreed = self.agreed if total else operation
        return not total


class HashedViews(Views):
    """SHA-256, by those who compare."""

    def __init__(self, context: Context) -> None:
        self._context = context
        rank, parties = context.rank, range(context.mesh.parties)
        groups = [g for size in (2, 3) for g in combinations(parties, size) if rank in g]
        self._hashes = {group: hashlib.sha256() for group in groups}

    def add(self, viewers: Viewers, values: Sequence[Tensor], *, alike: Viewers = ()) -> None:
        for value in values:
            self._context.show(value, partial(_absorb, self._hashes[viewers]))

    def digest(self, pair: Viewers) -> bytes:
        both = [h.digest() for group, h in sorted(self._hashes.items()) if {*pair} <= {*group}]
        return hashlib.sha256(b"".join(both)).digest()


class KeyedViews(Views):
    """Checksums under the keys of each pair, on the device of the values. NOTE [checksums]."""

    def __init__(self, context: Context) -> None:
        self._context = context
        parties = range(context.mesh.parties)
        pairs = [pair for pair in combinations(parties, 2) if context.rank in pair]
        call = context.streams.new_call()
        self._tables: dict[Viewers, Tensor] = {
            pair: call.draw(common_stream("table", *pair), (PART_WORDS,), torch.int64)
            for pair in pairs
        }
        self._totals: dict[Viewers, Tensor] = {
            pair: torch.zeros(2, dtype=torch.int64, device=context.device) for pair in pairs
        }

    def add(self, viewers: Viewers, values: Sequence[Tensor], *, alike: Viewers = ()) -> None:
        if len(values) > 1 and sum(value.nbytes for value in values) <= JOINED_BYTES:
            values = [torch.cat([value.reshape(-1).view(torch.int32) for value in values])]
        for pair in combinations(viewers, 2):
            for value in values if pair in self._totals and pair != alike else ():
                source, table = common_stream("views", *pair), self._tables[pair]
                self._context.randomness.add_checksum(table, source, value, self._totals[pair])

    def digest(self, pair: Viewers) -> bytes:
        return hashlib.sha256(checksum(self._totals[pair]).to_bytes(8, "little")).digest()


def make_views(context: Context) -> Views:
    """Returns keyed views if a party computes on a GPU, so that its cipher is ChaCha20."""
    return KeyedViews(context) if context.streams.cipher == "chacha20" else HashedViews(context)


def _absorb(hashed: Hash, value: Tensor) -> None:
    hashed.update(_bytes(value))


def _bytes(value: Tensor) -> memoryview:
    return value.cpu().numpy().ravel().data.cast("B")


def digest_of(value: Tensor) -> Tensor:
    """Returns the SHA-256 hash of a tensor's bytes as a message."""
    return _as_message(hashlib.sha256(_bytes(value)).digest())


def _as_message(digest: bytes) -> Tensor:
    return torch.frombuffer(bytearray(digest), dtype=torch.int64)


def verify(p: Verifying) -> Steps[None]:
    """Raises CheatingDetected at all honest parties if two of them know different values. 1 round.

    See NOTE [hidden hashes].
    """
    others = [party for party in range(p.parties) if party != p.rank]
    pairs = [(min(p.rank, j), max(p.rank, j)) for j in others]
    drawn = [
        p.context.draw_planes(common_stream("verify", *pair), (p.parties, 2, WORDS))
        for pair in pairs
    ]
    terms = p.context.tell(partial(_terms, p, pairs), *drawn)
    send = {j: [terms[j].to(p.device)] for j in others}
    received = yield Round(send, {j: [TOTAL] for j in others})
    p.context.check(partial(_compare, p), terms[p.rank], *(received[j][0] for j in others))


def _terms(p: Verifying, pairs: Sequence[Viewers], *drawn: Tensor) -> Tensor:
    """What this party adds to the sum of each receiver, by rank: a row of bytes for each.

    drawn: what each pair has drawn, which this party is one of.
    """
    totals = [0] * p.parties
    for pair, words in zip(pairs, drawn, strict=True):
        hashed = int.from_bytes(p.views.digest(pair), "little")
        numbers = _numbers(words)
        for receiver, (factor, mask) in enumerate(zip(numbers[::2], numbers[1::2], strict=True)):
            term = factor * hashed + mask
            totals[receiver] += term if p.rank == pair[0] else -term
    messages = [_as_message((total % PRIME).to_bytes(32, "little")) for total in totals]
    return torch.stack(messages)


def _compare(p: Verifying, number: int, *terms: Tensor) -> None:
    """Raises unless the terms that all parties have for this one add up to zero."""
    total = sum(map(_number, terms)) % PRIME
    if not p.views.agree(total, number << ROUND_BITS):
        raise cheating(p)


def _numbers(words: Tensor) -> list[int]:
    """Returns one number for each last row of words."""
    data, size = _bytes(words), words.element_size() * words.shape[-1]
    return [int.from_bytes(data[i : i + size], "little") for i in range(0, len(data), size)]


def _number(words: Tensor) -> int:
    return int.from_bytes(_bytes(words), "little")


def cheating(p: Verifying) -> CheatingDetected:
    """Returns the error: up to where all views agreed."""
    return CheatingDetected(
        "the views of the parties differ: one of them deviates from the protocol, or its memory or "
        "channel is faulty",
        limit="nothing was opened; all views agreed up to " + Operation(p.views.agreed),
        remedy="do not use the shares of this run again; start anew without that party",
    )
