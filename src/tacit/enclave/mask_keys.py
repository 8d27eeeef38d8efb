"""Random pairs of operands, from a key that the enclave shares with one worker.

A pair is a function of the key and the number of the task, so that both sides draw it without a
message. Numbers only grow, and each task draws at most one pair: no word is drawn for two tasks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod

import torch
from torch import Tensor

from .. import kernels
from ..kernels.stream import CIPHERS
from .worker_roles import Pair

BLOCK_BYTES = 64  # the right operand starts at a block of either cipher


@dataclass(frozen=True)
class MaskKey:
    """The key of a stream of pairs, and its cipher. `repr` does not show the key."""

    cipher: str
    key: bytes = field(repr=False)

    @staticmethod
    def size(cipher: str) -> int:
        """Returns how many bytes a key of this cipher has."""
        return CIPHERS[cipher].key_bytes

    def pair(
        self,
        number: int,
        shapes: tuple[tuple[int, ...], tuple[int, ...]],
        dtype: torch.dtype,
        device: torch.device,
    ) -> Pair:
        """Returns the uniform pair of a task."""
        a, b = (torch.empty(shape, dtype=dtype, device=device) for shape in shapes)
        for words, offset in ((a, 0), (b, _right_start(a))):
            kernels.stream(self.key, words, operation=number, offset=offset, cipher=self.cipher)
        return a, b

    def subtracted(self, number: int, a: Tensor, b: Tensor) -> Pair:
        """Returns two tensors minus the pair of a task; the pair is never in memory."""
        a, b = (x.clone(memory_format=torch.contiguous_format) for x in (a, b))
        for words, offset in ((a, 0), (b, _right_start(a))):
            where = {"operation": number, "offset": offset}
            kernels.mask(self.key, words, "sub", **where, cipher=self.cipher)
        return a, b


def _right_start(a: Tensor) -> int:
    size = prod(a.shape) * a.itemsize
    return -(-size // BLOCK_BYTES) * BLOCK_BYTES
