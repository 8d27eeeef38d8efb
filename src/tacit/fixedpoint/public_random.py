"""Public random numbers that all parties draw from a key they share."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..protocols.randomness import common_stream
from ..ring.deterministic import cosine_of_turns, logarithm
from .format import Format

BITS = 53  # the significant bits of a float64


def words(n: Format, shape: Sequence[int]) -> Tensor:
    """Returns random words of 64 bits as int64, the same at every party. No message."""
    context = n.protocol.context
    source = common_stream("public", *range(context.mesh.parties))
    context.mesh.require_own_thread()
    return context.streams.new_call().draw(source, shape, torch.int64)


def uniform(n: Format, shape: Sequence[int]) -> Tensor:
    """Returns multiples of 2^-53 in [0, 1) as float64, the same at every party. No message."""
    return (words(n, shape) & ((1 << BITS) - 1)).to(torch.float64) / 2.0**BITS


def normal(n: Format, shape: Sequence[int]) -> Tensor:
    """Returns numbers of the standard normal distribution, the same at every party. No message.

    Box and Muller's method: sqrt(-2 ln u) cos(2 pi v) for uniform u and v. Parties multiply their
    shares by the result, so it must have the same bits everywhere.
    """
    radius, turns = uniform(n, (2, *shape))
    return (-2 * logarithm(1 - radius)).sqrt() * cosine_of_turns(turns)
