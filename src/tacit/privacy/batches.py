"""Batches in which every row is with the same probability, independently of all others.

NOTE [secret batches]: nobody may know who is in a batch, or sampling protects nobody from those who
know. So all rows are shuffled by a permutation that nobody knows, and the first K of them are the
batch, for a secret K that is the number of N coins that show 1. That is what choosing each row with
the coin's probability gives. The batch has a public number of places, `places`; K is above it with
a probability below 2^-40, which counts as a part of delta. Places beyond K are marked 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from ..errors import ConfigError
from ..fixedpoint import Numbers
from ..tensor import SecretTensor

OVERFLOW = 2.0**-40  # the probability that a secret batch has more rows than places


def places(rows: int, rate: float) -> int:
    """Returns a size that a batch exceeds with a probability below OVERFLOW, by Chernoff's bound.

    Sums of coins are at least a rows with a probability of at most e^(-rows D), where D is the
    relative entropy of coins of probability a and of `rate`.
    """
    for size in range(math.ceil(rows * rate), rows):
        a = (size + 1) / rows
        entropy = a * math.log(a / rate)
        entropy += (1 - a) * math.log((1 - a) / (1 - rate)) if a < 1 else 0.0
        if rows * entropy >= -math.log(OVERFLOW):
            return size
    return rows


class SampledBatches:
    """Yields batches of rows, each for one step.

    tensors: whose first dimension is that of the rows, moved and chosen alike. rate: the
    probability that a row is in a batch. is_secret: whether nobody knows which rows are.
    """

    def __init__(
        self, n: Numbers, tensors: Sequence[Tensor], rate: float, *, is_secret: bool
    ) -> None:
        self._n, self._tensors, self.rate, self.is_secret = n, tuple(tensors), rate, is_secret
        self._steps = math.ceil(1 / rate)
        self._kept: Tensor | None = None

    def take_kept(self) -> Tensor:
        """Returns for each place of the last batch whether it counts; once for each batch."""
        kept, self._kept = self._kept, None
        if kept is None:
            raise ConfigError(
                "a private step without a batch of its own",
                limit="what is accounted is one step for each batch of the private loader",
                remedy="take every batch from the loader that make_private returns",
            )
        return kept

    def __len__(self) -> int:
        return self._steps

    @property
    def rows(self) -> int:
        """The number of rows of the whole set."""
        return len(self._tensors[0])

    def __iter__(self) -> Iterator[tuple[Tensor, ...]]:
        for _ in range(self._steps):
            yield self._secret_batch() if self.is_secret else self._public_batch()

    def _secret_batch(self) -> tuple[Tensor, ...]:
        """See NOTE [secret batches]."""
        n, size = self._n, places(self.rows, self.rate)
        count = SecretTensor(n.random_truths((self.rows,), self.rate), n).sum()
        self._kept = torch.arange(size) < count
        dtype = torch.get_default_dtype()
        columns = [one.reshape(self.rows, -1).to(dtype) for one in self._tensors]
        joined = torch.cat(columns, 1)
        assert isinstance(joined, SecretTensor)
        shuffled = SecretTensor(n.shuffle(joined.value), n)[:size]
        parts = shuffled.split([one.shape[1] for one in columns], 1)
        return tuple(
            part.reshape(size, *one.shape[1:]).to(one.dtype)
            for part, one in zip(parts, self._tensors, strict=True)
        )

    def _public_batch(self) -> tuple[Tensor, ...]:
        """All parties draw the same rows. An empty batch is one row that does not count."""
        chosen = (self._n.uniform((self.rows,)) < self.rate).nonzero().squeeze(1)
        self._kept = torch.full((max(len(chosen), 1),), len(chosen) > 0)
        rows = chosen if len(chosen) else torch.zeros(1, dtype=torch.int64)
        return tuple(one[rows] for one in self._tensors)
