"""Statistics of messages: whether bytes are uniform, and whether two samples differ."""

from __future__ import annotations

import torch
from tests.protocols.views import Message
from torch import Tensor

# A chi-square statistic with 255 degrees of freedom lies beyond with p < 1e-12 on either side.
LOWEST, HIGHEST = 120.0, 450.0
SIGMAS = 7.0


def histogram(messages: list[Message]) -> Tensor:
    """How often each byte value occurs."""
    joined = torch.cat([tensor.reshape(-1).view(torch.uint8) for _, tensor in messages])
    return torch.bincount(joined.int(), minlength=256).double()


def goodness(messages: list[Message]) -> float:
    """The chi-square statistic of the bytes against uniform ones."""
    counts = histogram(messages)
    expected = counts.sum() / 256
    return float(((counts - expected) ** 2 / expected).sum())


def difference(some: list[Message], others: list[Message]) -> float:
    """The chi-square statistic of two samples of equal size."""
    a, b = histogram(some), histogram(others)
    assert a.sum() == b.sum()
    return float(((a - b) ** 2 / (a + b).clamp(min=1)).sum())


def imbalance(tensor: Tensor) -> float:
    """By how many standard deviations the number of ones differs from half of all bits."""
    data = tensor.reshape(-1).view(torch.uint8).numpy().tobytes()
    ones, bits = int.from_bytes(data).bit_count(), 8.0 * len(data)
    return abs(ones - bits / 2) / (bits / 4) ** 0.5
