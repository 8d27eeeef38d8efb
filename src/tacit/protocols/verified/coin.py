"""Public random numbers that nobody could know before, and opening in general."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import torch
from torch import Tensor

from ...kernels import stream, unpack_bits
from ...ring import num_words
from ...transport import Spec
from ..randomness import Stream, mask_stream
from ..replicated.base import ReplicatedBase
from ..share import Parts
from ..steps import Round, Steps

SEED_WORDS = 4


@cache
def opened_stream(use: str, part: int) -> Stream:
    """Returns the stream of a part of a secret that is opened, or hides one that is."""
    return mask_stream(use, (part + 1) % 3, (part + 2) % 3, part)


def open_parts(p: ReplicatedBase, secrets: Sequence[Parts]) -> Steps[list[Tensor]]:
    """Returns the part that this party lacks of each secret. 1 round.

    Party i+1 sends it to party i, and party i+2, which holds it too, compares it with party i.
    """
    message = [parts[p.previous].contiguous() for parts in secrets]
    specs = [Spec(tuple(part.shape), part.dtype) for part in message]
    received = (yield Round({p.previous: message}, {p.next: specs}))[p.next]
    for parts, missing in zip(secrets, received, strict=True):
        p.note_opening(parts, missing)
    return received


class Coin:
    """Public random words, all from one seed that was opened."""

    def __init__(self, seed: Tensor) -> None:
        self._key = bytes(seed.cpu().contiguous().view(torch.uint8).numpy())
        self._draws = 0

    def words(self, count: int, device: torch.device) -> Tensor:
        """Returns uniform words of 64 bits."""
        self._draws += 1
        out = torch.empty(count, dtype=torch.int64, device=device)
        return stream(self._key, out, operation=self._draws, cipher="chacha20")

    def bits(self, shape: Sequence[int], dtype: torch.dtype, device: torch.device) -> Tensor:
        """Returns uniform zeros and ones."""
        return unpack_bits(self.words(num_words(torch.Size(shape).numel()), device), shape, dtype)

    def order(self, count: int, device: torch.device) -> Tensor:
        """Returns a uniform order of so many things, as indices."""
        return self.words(count, device).argsort(stable=True)


def toss(p: ReplicatedBase) -> Steps[Coin]:
    """Returns a coin. 2 rounds, 256 bits a party.

    The seed is the sum of three parts, each of which one party learns only now, and which nobody
    can choose. NOTE [all is said]: a party that knew the coin could choose its errors to fit. In
    most rounds a party hears one other only, so the next could be opened while a cheating party
    still owes a message to the third. Hence the first round, of empty messages: who has sent one
    has received all that was sent to it before, and without both nobody opens anything.
    """
    yield Round({p.next: [], p.previous: []}, {p.next: [], p.previous: []})
    form = (SEED_WORDS,)
    seed = {part: p.context.draw_planes(opened_stream("coin", part), form) for part in p.held}
    [missing] = yield from open_parts(p, [seed])
    i, j = p.held
    return Coin(seed[i] ^ seed[j] ^ missing)
