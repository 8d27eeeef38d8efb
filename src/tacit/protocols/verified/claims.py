"""What the parties computed together and did not verify yet."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from ..bit_trees import map_parts
from ..products.bilinear import Bilinear
from ..share import Parts

MOST_GATES = 1 << 20  # that are kept: with so many, each gate needs two triples only


class Gates(NamedTuple):
    """z = x * y for elements of one dimension, or z = x & y for words."""

    x: Parts
    y: Parts
    z: Parts

    @classmethod
    def of(cls, x: Parts, y: Parts, z: Parts) -> Gates:
        """Returns operands, which may be broadcast, and results as flat tensors."""

        def flat(operand: Tensor, result: Tensor) -> Tensor:
            is_broadcast = operand.shape != result.shape
            return (operand.expand(result.shape) if is_broadcast else operand).reshape(-1)

        return cls(map_parts(flat, x, z), map_parts(flat, y, z), map_parts(torch.ravel, z))

    @property
    def numel(self) -> int:
        return next(iter(self.z.values())).numel()


class Product(NamedTuple):
    """z = op(x, y) for an operation with sums of products."""

    op: Bilinear
    x: Parts
    y: Parts
    z: Parts


@dataclass(eq=False)
class Claims:
    """elements, words: gates over the ring and over bits. products: all others."""

    elements: list[Gates] = field(default_factory=list)
    words: list[Gates] = field(default_factory=list)
    products: list[Product] = field(default_factory=list)
    count: int = 0

    def __bool__(self) -> bool:
        return bool(self.elements or self.words or self.products)

    @property
    def is_full(self) -> bool:
        """Whether so much is kept that it should be verified now, to save memory."""
        return self.count >= MOST_GATES

    def add_elements(self, gates: Gates) -> None:
        self.elements.append(gates)
        self.count += gates.numel

    def add_words(self, gates: Gates) -> None:
        self.words.append(gates)
        self.count += gates.numel

    def add_product(self, product: Product) -> None:
        self.products.append(product)
        self.count += next(iter(product.z.values())).numel()
