"""Checks of what workers answer, with random vectors that the enclave alone knows."""

from __future__ import annotations

from functools import partial

from torch import Tensor

from ... import kernels
from ...crypto import Key
from ...errors import ConfigError
from ...kernels.quantisation import CIPHER
from ...kernels.stream import CIPHERS
from ..pieces import Piece
from .freivalds import BITS_PER_CHECK, agrees
from .masking import MaskedProduct


class Checks:
    """Freivalds' checks, as many for each product as the bound needs.

    A wrong product passes with a probability of at most 2^-bits; 0 checks nothing. A product that
    is computed in blocks passes only if all its blocks do, and each has fresh vectors: the bound is
    that of one block. bound: of the absolute values of a right product.
    """

    def __init__(self, key: Key, bits: int, bound: int) -> None:
        if bits < 0:
            raise ConfigError(f"check_bits={bits}", limit="at least 0 is needed")
        self._key, self._bound = key, bound
        self.num_checks = -(-bits // BITS_PER_CHECK)
        self._num_drawn = 0

    def agree(self, product: MaskedProduct, c: Tensor) -> bool:
        """Returns whether c is the product."""
        op, (a, b) = product.op, (product.a.values, product.b.values)
        op, (a, b) = (op.op, op.cut(a, b)) if isinstance(op, Piece) else (op, (a, b))
        for _ in range(self.num_checks):
            self._num_drawn += 1
            if not agrees(op, a, b, c, self._bound, partial(self._draw, self._num_drawn)):
                return False
        return True

    def _draw(self, number: int, words: Tensor) -> Tensor:
        """Fills a tensor with the words of the check of this number."""
        key = self._key.derive("check", CIPHERS[CIPHER].key_bytes)
        return kernels.stream(key, words, operation=number, cipher=CIPHER)
