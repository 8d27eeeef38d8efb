"""Randomness that a test chooses: a function replaces the draws of all parties of this process."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from unittest.mock import patch

import torch
from torch import Tensor

from tacit.kernels import stream
from tacit.kernels.stream import IN_PLACE
from tacit.protocols.randomness import CallRandomness, Layout

Draw = tuple[frozenset[int], int, int]  # holders of the key, number of the call, first byte
Change = Callable[[Draw, Tensor], Tensor]


@contextmanager
def changed_draws(change: Change) -> Iterator[None]:
    """Within the block, `change(draw, words)` replaces the words of each draw."""
    original = CallRandomness.draws

    def draws(
        self: CallRandomness, holders: Collection[int], layouts: Sequence[Layout]
    ) -> list[Tensor]:
        group, words = frozenset(holders), []
        for layout in layouts:
            start = self._offsets.get(group, 0)
            words.append(change((group, self.number, start), original(self, holders, [layout])[0]))
        return words

    def mask(self: CallRandomness, holders: Collection[int], values: Tensor, how: str) -> Tensor:
        [words] = draws(self, holders, [(tuple(values.shape), values.dtype)])
        return IN_PLACE[how](values.contiguous(), words)

    with patch.object(CallRandomness, "draws", draws), patch.object(CallRandomness, "mask", mask):
        yield


def fixed(draw: Draw, like: Tensor, seed: str = "") -> Tensor:
    """Returns words that depend on the draw and the seed only, not on the session's keys."""
    group, number, start = draw
    key = sha256(f"{seed}|{sorted(group)}".encode()).digest()[:16]
    return stream(key, torch.empty_like(like), operation=number, offset=start)


def seeded_words(seed: str, shape: Sequence[int], dtype: torch.dtype, number: int = 0) -> Tensor:
    """Returns uniform words of a public key."""
    key = sha256(seed.encode()).digest()[:16]
    return stream(key, torch.empty(tuple(shape), dtype=dtype), operation=number)
