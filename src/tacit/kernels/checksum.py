"""Checksums of what parties compare, which whoever does not know their keys cannot keep equal.

The 32-bit words of a tensor are cut into parts of PART_WORDS. A part x counts as
    w (t_0 x_0 + t_1 x_1 + ...) modulo 2^61 - 1,
where the table t is secret and the same for all parts, and w is a new random number for each. If
parts differ, their sums under the table do, but for a probability of 2^-60; then w makes the
difference of the checksums uniform, and it is zero with the same probability: 2^-59 together.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ..errors import ConfigError
from .backend import gpu_for
from .stream import StreamKey, check_stream, key_words, stream

PRIME = (1 << 61) - 1
PART_WORDS = 8192
PART_BLOCK = 64  # bytes of a stream that the factor of a part takes
_LIMB_BITS, _ROW = 21, 1024  # so many products of a word and a limb have a sum below 2^63


def add_checksum(
    table: Tensor,
    key: bytes | StreamKey,
    values: Tensor,
    total: Tensor,
    *,
    operation: int,
    offset: int = 0,
    cipher: str = "aes128-ctr",
) -> Tensor:
    """Adds the checksum of `values` to `total`; returns `total`, two int64. `checksum` reads it.

    `table` has PART_WORDS random int64. The factor of part i is the first word of 64 bits of the
    stream of (key, operation) from byte offset + 64 i on; the offset is a multiple of 64. Of both,
    the upper three bits do not count.
    """
    check_stream(values, operation, offset, cipher)
    if offset % PART_BLOCK or table.shape != (PART_WORDS,) or total.shape != (2,):
        limit = f"a multiple of {PART_BLOCK}, a table of {PART_WORDS} and a total of 2 are needed"
        shapes = f"a table of {tuple(table.shape)} and a total of {tuple(total.shape)}"
        raise ConfigError(f"offset={offset}, {shapes}", limit=limit)
    if (gpu := gpu_for(table, values, total)) and cipher == "chacha20":
        there = key_words(key, values)
        return gpu.chacha20_checksum(table, there, values, total, operation, offset)
    words = values.detach().cpu().view(-1).view(torch.int32).numpy().view("<u4").astype("<u8")
    factors = torch.empty((num_parts(values), PART_BLOCK // 8), dtype=torch.int64)
    host = key.words.cpu().numpy().tobytes() if isinstance(key, StreamKey) else key
    stream(host, factors, operation=operation, offset=offset, cipher=cipher)
    limbs = _limbs(table.cpu().numpy().view("<u8") & np.uint64(PRIME))
    found = sum(
        (factor & PRIME) * _under_table(words[i * PART_WORDS : (i + 1) * PART_WORDS], limbs)
        for i, factor in enumerate(factors[:, 0].tolist())
    )
    found %= PRIME
    return total.add_(torch.tensor([found & 0xFFFFFFFF, found >> 32]).to(total.device))


def checksum(total: Tensor) -> int:
    """Returns the sum of all checksums, modulo 2^61 - 1."""
    low, high = total.cpu().tolist()
    return int(low + (high << 32)) % PRIME


def num_parts(values: Tensor) -> int:
    """Returns how many parts a tensor has."""
    return -(-values.nbytes // (4 * PART_WORDS))


def _limbs(table: np.ndarray) -> list[np.ndarray]:
    mask = np.uint64((1 << _LIMB_BITS) - 1)
    return [(table >> np.uint64(_LIMB_BITS * i)) & mask for i in range(3)]


def _under_table(part: np.ndarray, limbs: list[np.ndarray]) -> int:
    """Returns t_0 x_0 + t_1 x_1 + ... as an integer."""
    total = 0
    for start in range(0, len(part), _ROW):
        row = part[start : start + _ROW]
        for i, limb in enumerate(limbs):
            total += int((row * limb[start : start + len(row)]).sum()) << (_LIMB_BITS * i)
    return total
