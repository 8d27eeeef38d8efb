"""Random numbers that only the enclaves know: the methods of `secret_random` on plain tensors."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..protocols.randomness import common_stream
from .value import Value

if TYPE_CHECKING:
    from .plain import PlainNumbers

BITS = 53  # the significant bits of a float64


def random_integers(n: PlainNumbers, shape: Sequence[int], bits: int) -> Value:
    return n.value(_words(n, shape) & ((1 << bits) - 1))


def random_below(n: PlainNumbers, shape: Sequence[int], count: int) -> Value:
    return n.value((_uniform(n, shape) * count).to(torch.int64))


def random_uniform(n: PlainNumbers, shape: Sequence[int], dtype: torch.dtype) -> Value:
    return n.value(_uniform(n, shape).to(dtype))


def random_truths(n: PlainNumbers, shape: Sequence[int], probability: Tensor | float) -> Value:
    return n.value(_uniform(n, shape) < n.tensor(probability))


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


def random_normal(n: PlainNumbers, shape: Sequence[int], dtype: torch.dtype) -> Value:
    radius = (2 * _exponential(n, shape)).sqrt()
    return n.value((radius * (2 * math.pi * _uniform(n, shape)).cos()).to(dtype))


def shuffle(n: PlainNumbers, x: Value) -> Value:
    order = n.value(_words(n, x.shape[:1]).argsort())
    return n.compute("a shuffle", lambda rows, order: rows[order], x, order)


def _words(n: PlainNumbers, shape: Sequence[int]) -> Tensor:
    """Words of 64 bits: from the operating system, or from a key if several enclaves need them."""
    context, enclaves = n.protocol.context, n.protocol.enclaves
    call = context.streams.new_call()
    if not n.protocol.is_enclave:
        return torch.empty(shape, dtype=torch.int64, device="meta")
    if len(enclaves) > 1:
        return call.draw(common_stream("random", *enclaves), shape, torch.int64)
    count = torch.Size(shape).numel()
    if not count:
        return torch.empty(shape, dtype=torch.int64)
    drawn = bytearray(os.urandom(8 * count))
    return torch.frombuffer(drawn, dtype=torch.int64).reshape(shape)


def _uniform(n: PlainNumbers, shape: Sequence[int]) -> Tensor:
    return (_words(n, shape) & ((1 << BITS) - 1)).to(torch.float64) / 2.0**BITS


def _exponential(n: PlainNumbers, shape: Sequence[int]) -> Tensor:
    return -(1 - _uniform(n, shape)).log()


def _geometric(n: PlainNumbers, shape: Sequence[int], rate: float) -> Tensor:
    return (_exponential(n, shape) / rate).to(torch.int64)
