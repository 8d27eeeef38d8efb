"""Random numbers that only the enclaves know: the methods of `sampling` on plain tensors."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..protocols.randomness import CallRandomness, common_stream
from .sampling import checked_count, checked_probability, normal_grid
from .value import Value

if TYPE_CHECKING:
    from .plain import PlainNumbers

BITS = 53  # the significant bits of a float64


def random_integers(n: PlainNumbers, shape: Sequence[int], bits: int) -> Value:
    return n.value(_words(n, shape) & ((1 << bits) - 1))


def random_below(n: PlainNumbers, shape: Sequence[int], count: int) -> Value:
    checked_count(n, count)
    return n.value((_uniform(n, shape) * count).to(torch.int64))


def random_uniform(n: PlainNumbers, shape: Sequence[int], dtype: torch.dtype) -> Value:
    return n.value(_uniform(n, shape).to(dtype))


def random_truths(n: PlainNumbers, shape: Sequence[int], probability: Tensor | float) -> Value:
    return n.value(_uniform(n, shape) < n.tensor(checked_probability(probability)))


def random_geometric(n: PlainNumbers, shape: Sequence[int], rate: float) -> Value:
    return n.value(_geometric(n, shape, rate))


def random_exponential(
    n: PlainNumbers, shape: Sequence[int], scale: float, dtype: torch.dtype
) -> Value:
    return n.value((_exponential(n, shape) * scale).to(dtype))


def random_discrete_laplace(n: PlainNumbers, shape: Sequence[int], scale: float) -> Value:
    one, other = _geometric(n, (2, *shape), 1 / scale)
    return n.value(one - other)


def random_laplace(
    n: PlainNumbers, shape: Sequence[int], scale: float, dtype: torch.dtype
) -> Value:
    units = 2.0**n.fraction_bits  # of a grid, as in a session of shares
    one, other = _geometric(n, (2, *shape), 1 / (scale * units))
    return n.value(((one - other) / units).to(dtype))


def random_discrete_normal(n: PlainNumbers, shape: Sequence[int], deviation: float) -> Value:
    """As NOTE [rejected draws] in sampling.py says, but nothing has to be opened."""
    call, (t, s, m) = n.protocol.context.streams.new_call(), normal_grid(n, deviation)
    if not n.protocol.is_enclave:
        return n.value(torch.empty(shape, dtype=torch.int64, device="meta"))
    size, kept = torch.Size(shape).numel(), torch.empty(0, dtype=torch.int64)
    while len(kept) < size:
        form = (3, 2 * (size - len(kept)) + 32)
        draws = -(1 - _reals(_enclaves_words(n, call, form))).log()
        one, other = (draws[:2] * t).to(torch.int64)
        y, allowed = one - other, (draws[2] * (2 * s * t * m)).floor()
        kept = torch.cat([kept, y[allowed >= (m * y.abs() - s).double() ** 2]])
    return n.value(kept[:size].reshape(shape))


def random_normal_units(
    n: PlainNumbers, shape: Sequence[int], deviation: float, dtype: torch.dtype
) -> Value:
    units = 2.0**n.fraction_bits  # of a grid, as in a session of shares
    drawn = n.tensor(random_discrete_normal(n, shape, deviation * units))
    return n.value((drawn / units).to(dtype))


def random_normal(n: PlainNumbers, shape: Sequence[int], dtype: torch.dtype) -> Value:
    radius = (2 * _exponential(n, shape)).sqrt()
    return n.value((radius * (2 * math.pi * _uniform(n, shape)).cos()).to(dtype))


def shuffle(n: PlainNumbers, x: Value) -> Value:
    order = n.value(_words(n, x.shape[:1]).argsort())
    return n.compute("a shuffle", lambda rows, order: rows[order], x, order)


def _words(n: PlainNumbers, shape: Sequence[int]) -> Tensor:
    """Words of 64 bits; only their shape at a party."""
    call = n.protocol.context.streams.new_call()
    if not n.protocol.is_enclave:
        return torch.empty(shape, dtype=torch.int64, device="meta")
    return _enclaves_words(n, call, shape)


def _enclaves_words(n: PlainNumbers, call: CallRandomness, shape: Sequence[int]) -> Tensor:
    """Words from the operating system, or from a key if several enclaves need the same."""
    if len(n.protocol.enclaves) > 1:
        return call.draw(common_stream("random", *n.protocol.enclaves), shape, torch.int64)
    count = torch.Size(shape).numel()
    if not count:
        return torch.empty(shape, dtype=torch.int64)
    drawn = bytearray(os.urandom(8 * count))
    return torch.frombuffer(drawn, dtype=torch.int64).reshape(shape)


def _uniform(n: PlainNumbers, shape: Sequence[int]) -> Tensor:
    return _reals(_words(n, shape))


def _reals(words: Tensor) -> Tensor:
    """Uniform numbers in [0, 1), of random words."""
    return (words & ((1 << BITS) - 1)).to(torch.float64) / 2.0**BITS


def _exponential(n: PlainNumbers, shape: Sequence[int]) -> Tensor:
    return -(1 - _uniform(n, shape)).log()


def _geometric(n: PlainNumbers, shape: Sequence[int], rate: float) -> Tensor:
    return (_exponential(n, shape) / rate).to(torch.int64)
