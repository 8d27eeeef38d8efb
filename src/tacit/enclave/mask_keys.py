"""Masks of operands, from keys that the enclave shares with workers.

A part of a mask is a function of a key and the number of the operand, so that both sides draw it
without a message. Each operand has a number of its own: no word hides two of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from .. import kernels
from ..kernels.quantisation import masked8
from ..kernels.stream import CIPHERS


@dataclass(frozen=True)
class MaskKeys:
    """Keys of parts of masks, and their cipher. `repr` does not show the keys."""

    cipher: str
    keys: tuple[bytes, ...] = field(repr=False)

    @staticmethod
    def size(cipher: str) -> int:
        """Returns how many bytes a key of this cipher has."""
        return CIPHERS[cipher].key_bytes

    def mask(
        self, number: int, shape: Sequence[int], dtype: torch.dtype, device: torch.device
    ) -> Tensor:
        """Returns the sum of the parts of an operand's mask; nothing if there is no key."""
        if not self.keys:
            return torch.empty(0, dtype=dtype, device=device)
        first, *others = self.keys
        words = torch.empty(tuple(shape), dtype=dtype, device=device)
        kernels.stream(first, words, operation=number, cipher=self.cipher)
        for key in others:
            kernels.mask(key, words, "add", operation=number, cipher=self.cipher)
        return words

    def masked(
        self, number: int, values: Tensor, dtype: torch.dtype, *, pinned: bool = False
    ) -> Tensor:
        """Returns an operand minus its mask, which is never in memory.

        pinned: in pinned memory, from which a GPU copies fast.
        """
        words = torch.empty(values.shape, dtype=dtype, device=values.device, pin_memory=pinned)
        if values.dtype == torch.int8:
            return masked8(values, self.keys, words, operation=number, cipher=self.cipher)
        words.copy_(values)
        for key in self.keys:
            kernels.mask(key, words, "sub", operation=number, cipher=self.cipher)
        return words

    def some(self, parts: Sequence[int]) -> MaskKeys:
        """Returns the keys of these parts alone."""
        return MaskKeys(self.cipher, tuple(self.keys[part] for part in parts))
