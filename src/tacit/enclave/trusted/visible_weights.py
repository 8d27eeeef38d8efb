"""Weights that a worker may see: it multiplies masked activations with them.

The setting of Slalom (Tramèr and Boneh, 2019), for inference. For an activation a and a weight W
the worker receives W once and e = a - u for each product, and returns e ⊗ W. The enclave adds
u ⊗ W. This term costs the enclave as much as the product. It depends on no data, so that it can be
made ahead. Each product has a mask of its own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import NamedTuple

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef

from ...protocols.plain_memory import PlainMemory
from ...protocols.products.bilinear import Bilinear
from ...ring import Ring
from ...transport import CPU
from ..mask_keys import MaskKeys
from ..worker_roles import Role
from .masking import MaskedProduct, Operand
from .product_bytes import scratch_bytes


class Use(NamedTuple):
    """A product of a weight: the operation, the other operand's shape, and the weight's side."""

    op: Bilinear
    shape: torch.Size
    weight_is_left: bool

    def apply(self, weight: Tensor, other: Tensor) -> Tensor:
        """Returns the product of the weight and another operand."""
        return self.op(weight, other) if self.weight_is_left else self.op(other, weight)


class MaskTerm(NamedTuple):
    """u ⊗ W, where u is the mask of this number."""

    number: int
    values: Tensor


@dataclass
class Weight(Operand):
    """Integers of a weight that the worker may see, with the terms made ahead for its products."""

    terms: dict[Use, deque[MaskTerm]] = field(default_factory=dict)

    def take(self, use: Use) -> MaskTerm | None:
        """Returns a term that was made ahead for a product, once; None if there is none."""
        terms = self.terms.setdefault(use, deque())
        return terms.popleft() if terms else None


Pair = tuple[Weight, Operand]
Masks = tuple[MaskKeys, Ring]


class VisibleWeights:
    """The tensors that the worker may see, with their views, and the products with them.

    Nobody writes to a value of an enclave (NOTE [views] in tensor/secret.py). What a program makes
    of a weight, such as the weight after a step of training, lies in other memory and stays hidden.
    numbers: of operands and so of masks, each of which is used once.
    """

    def __init__(
        self, keys: MaskKeys, ring: Ring, numbers: Iterator[int], memory: PlainMemory
    ) -> None:
        self._masks, self._numbers, self._memory = (keys, ring), numbers, memory
        self._weights: dict[StorageWeakRef, dict[object, Weight]] = {}

    def show(self, x: Tensor) -> None:
        """Lets the worker see a tensor, which nobody writes to from now on."""
        self._weights.setdefault(StorageWeakRef(x.untyped_storage()), {})

    def get(self, x: Tensor, make: Callable[[], Operand]) -> Weight | None:
        """Returns the operand of a tensor that is shown, with the integers of `make`; else None."""
        views = self._weights.get(StorageWeakRef(x.untyped_storage()))
        if views is None:
            return None
        key = (x.data_ptr(), x.dtype, x.shape, x.stride())
        if key not in views:
            made = make()
            views[key] = Weight(made.number, made.values, made.exponent)
        return views[key]

    def product(self, number: int, op: Bilinear, a: Operand, b: Operand) -> VisibleProduct | None:
        """Returns the product of this number, if the worker may see an operand; else None.

        Its term was made ahead, or is made now.
        """
        weight, other = (b, a) if isinstance(b, Weight) else (a, b)
        if not isinstance(weight, Weight):
            return None
        use = Use(op, other.values.shape, weight is a)
        term = weight.take(use) or self._term(weight, use)
        return VisibleProduct(self._masks, number, use, (weight, other), term)

    def precompute(self, calls: int) -> None:
        """Makes the terms of so many further calls of each product that was computed so far."""
        name, memory = "a term made ahead", self._memory
        used = [weight for views in self._weights.values() for weight in views.values()]
        for weight, use, terms in ((w, *item) for w in used for item in w.terms.items()):
            while len(terms) < calls:
                with memory.opened(name, [weight.values]):
                    with memory.working(name, self._term_bytes(weight, use)):
                        term = self._term(weight, use)
                    memory.adopt(term.values, name)
                terms.append(term)

    def forgotten(self) -> tuple[int, ...]:
        """Returns the numbers of weights that were freed since the last call of this."""
        freed = [storage for storage in self._weights if storage.expired()]
        return tuple(w.number for storage in freed for w in self._weights.pop(storage).values())

    def _term(self, weight: Weight, use: Use) -> MaskTerm:
        """Returns u ⊗ W for a mask u that no other product has."""
        (keys, ring), number = self._masks, next(self._numbers)
        mask = keys.mask(number, use.shape, ring.dtype, CPU)
        return MaskTerm(number, use.apply(weight.values.to(ring.dtype), mask))

    def _term_bytes(self, weight: Weight, use: Use) -> int:
        """Returns the bytes of a term while it is made: weight, mask and product in the ring."""
        shapes = weight.values.shape, use.shape
        left, right = shapes if use.weight_is_left else shapes[::-1]
        word = self._masks[1].dtype.itemsize
        words = prod(left) + prod(right) + prod(use.op.shape(left, right))
        return word * words + scratch_bytes(use.op, left, right, word)


class VisibleProduct(MaskedProduct):
    """One product of a weight that the worker sees; the mask of a term hides the other operand."""

    def __init__(self, masks: Masks, number: int, use: Use, operands: Pair, term: MaskTerm) -> None:
        weight, other = operands
        hidden = Operand(term.number, other.values, other.exponent)
        a, b = (weight, hidden) if use.weight_is_left else (hidden, weight)
        super().__init__(*masks, number, use.op, a, b)
        self.term = term

    def _masked(self, x: Operand) -> Tensor:
        """W, or e = a - u."""
        return x.values.to(self._ring.dtype) if isinstance(x, Weight) else super()._masked(x)

    def computed_inside(self, roles: Sequence[Role]) -> Tensor:
        """Returns u ⊗ W."""
        return self.term.values
