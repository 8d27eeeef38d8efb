"""Operands of products: integers of the tensors of floats that an enclave multiplies."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from math import inf, isnan

import torch
from torch import Tensor

from ...crypto import Key
from ...kernels.quantisation import CIPHER, PART_STEP, quantise8, summary
from ...kernels.stream import CIPHERS
from ...protocols.plain_memory import PlainMemory
from .masking import Operand
from .operand_cache import OperandCache, dense
from .product_bytes import QUANTISED_ELEMENT
from .quantise import Precision
from .visible_weights import VisibleWeights

PARTS = 8  # one part of so many of a limited memory is for quantising
AHEAD = 8  # so many parts are opened ahead: one may be smaller than a chunk


class QuantisedOperands:
    """Makes the integers of tensors, and finds those that were made before.

    In a limited memory a tensor is quantised in parts, in two passes: the largest number decides
    on the exponent of all. Rounding is by the place in the tensor, so that the integers are those
    of one pass.
    """

    def __init__(
        self,
        precision: Precision,
        key: Key,
        cache: OperandCache,
        weights: VisibleWeights,
        numbers: Iterator[int],
        memory: PlainMemory,
    ) -> None:
        self._precision, self._key, self._memory = precision, key, memory
        self._cache, self._weights, self._numbers = cache, weights, numbers
        self._num_rounded = 0

    def get(self, name: str, x: Tensor) -> Operand:
        """Returns the operand of a tensor of floats, for the operation of this name."""
        make = self._make if self._memory.limit is None else partial(self._make_in_parts, name)
        shown = self._weights.get(x, partial(make, x))
        if shown:
            return shown
        if self._memory.limit is not None:
            self._memory.forget_freed()  # what the cache keeps is the same with and without a limit
            return self._cache.get(x, 0, partial(make, x))  # nobody writes to x: no hash is needed
        x = _single(x)
        found = summary(x.contiguous() if (view := dense(x)) is None else view)
        return self._cache.get(x, found.hash, partial(make, x, found.most))

    def _make(self, x: Tensor, most: float | None = None) -> Operand:
        """Returns a new operand for a tensor with max|x| = most."""
        if most is None:
            x = _single(x).contiguous()
            most = summary(x).most
        values, exponent = self._precision.quantise(x, most, self._rounding())
        return Operand(next(self._numbers), values, exponent)

    def _make_in_parts(self, name: str, x: Tensor) -> Operand:
        """Returns a new operand for a tensor of a limited memory, which the integers lie in."""
        flat = self._contiguous(name, x).view(-1)
        values = self._memory.new("a quantised operand", x.shape, self._precision.dtype)
        most = _largest([summary(part).most for _, part in self._parts(name, flat)])
        rounded, exponent = self._rounding(), 0
        for first, part in self._parts(name, flat):
            made, exponent = self._precision.quantise(part, most, partial(rounded, first=first))
            self._memory.write(name, values.view(-1)[first : first + part.numel()], made)
        return Operand(next(self._numbers), values, exponent)

    def _parts(self, name: str, flat: Tensor) -> Iterator[tuple[int, Tensor]]:
        """Returns copies of some numbers after the others, and where they begin."""
        assert self._memory.limit is not None
        step = self._memory.limit // PARTS // QUANTISED_ELEMENT // PART_STEP * PART_STEP
        step = max(step, PART_STEP)
        for first in range(0, flat.numel(), step):
            some = flat[first : first + step]
            self._memory.prefetch(name, [flat[first + step : first + AHEAD * step]])
            with self._memory.working(name, some.numel() * QUANTISED_ELEMENT):
                yield first, _single(self._memory.read(name, some))

    def _contiguous(self, name: str, x: Tensor) -> Tensor:
        """Returns a tensor of a limited memory, or a copy of it there, in order."""
        if x.is_contiguous():
            return x
        assert self._memory.limit is not None
        made = self._memory.new(name, x.shape, x.dtype)
        rows = max(self._memory.limit // PARTS * x.shape[0] // max(x.nbytes, 1), 1)
        for into, some in zip(made.split(rows), x.split(rows), strict=True):
            with self._memory.working(name, some.nbytes):
                self._memory.write(name, into, self._memory.read(name, some))
        return made

    def _rounding(self) -> partial[Tensor]:
        """Returns how a new operand is rounded: each has random words of its own."""
        self._num_rounded += 1
        key = self._key.derive("round", CIPHERS[CIPHER].key_bytes)
        return partial(quantise8, key=key, operation=self._num_rounded)


def _largest(found: list[float]) -> float:
    """Returns the largest number; NaN if one is."""
    return max(found, key=lambda one: inf if isnan(one) else one)


def _single(x: Tensor) -> Tensor:
    """Returns a tensor in float32, or as it is if it has float64."""
    return x if x.dtype == torch.float64 else x.float()
