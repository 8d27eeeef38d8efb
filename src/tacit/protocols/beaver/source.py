"""Correlated randomness: what the parties hold before they look at their operands.

A source makes it, with a dealer or without one. Each method is a generator of rounds that depend on
no secret, and returns the shares of this member; a dealer's are zero, like all its parts. A mask
hides one opening: nothing that a source returned is used twice.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ..products.bilinear import Bilinear
from ..steps import Steps

Owners = tuple[int | None, int | None]


class Triple(NamedTuple):
    """Shares of uniform a and b, and of c = op(a, b), or of a & b for planes of bits."""

    a: Tensor
    b: Tensor
    c: Tensor


class Square(NamedTuple):
    """Shares of uniform a, and of c = a^2."""

    a: Tensor
    c: Tensor


class BitPairs(NamedTuple):
    """Uniform bits r_j that are shared as planes and as ring elements.

    planes: one for each bit. elements: of shape (bits, *shape). a: shares of uniform elements, and
    products: shares of r_j a for the chosen bits j, of shape (chosen, *shape).
    """

    planes: Tensor
    elements: Tensor
    a: Tensor | None
    products: Tensor | None


class Source(ABC):
    """Where the correlated randomness of a session comes from."""

    @abstractmethod
    def bilinear_triple(
        self, op: Bilinear, a: Sequence[int], b: Sequence[int], owners: Owners
    ) -> Steps[Triple]:
        """Returns a triple of an operation on operands of these shapes.

        owners: of the operands that a and b will hide, if their owners know them.
        """

    @abstractmethod
    def square_pair(self, shape: Sequence[int]) -> Steps[Square]:
        """Returns uniform elements and their squares."""

    @abstractmethod
    def and_triples(self, rows: Sequence[int], words: int) -> Steps[list[Triple]]:
        """Returns a triple of AND gates, 64 in a word, for each number of rows."""

    @abstractmethod
    def bit_pairs(self, bits: int, shape: Sequence[int], chosen: Sequence[int]) -> Steps[BitPairs]:
        """Returns random bits for each element, and products of the chosen ones with one mask."""

    @abstractmethod
    def random_part(self, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        """Returns this member's part of uniform words that nobody knows. No message."""
