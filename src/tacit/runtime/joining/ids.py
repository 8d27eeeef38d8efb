"""Ids of rows, and their keyed hashes: which bins a row belongs to, and the key that is compared.

An id is a text or an integer, or several of them. An integer is the text of its decimal digits, so
that 17 and "17" are the same id, as in a csv file. Texts are compared as their UTF-8 bytes: upper
case, spaces, leading zeros and the two ways to write "é" make different ids.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..files.contents import FileRejected
from .bins import CANDIDATES, BinSizes

SEED_BYTES = 32
FINGERPRINT_WORDS = 2  # of 64 bits


def encoded_ids(columns: Sequence[Sequence[Any]]) -> list[bytes]:
    """Returns the id of each row as bytes, from the columns of cells that make it up.

    Each cell follows its length, so that ("a", "bc") and ("ab", "c") differ. Rejects a missing cell
    and an id that comes twice.
    """
    ids = [
        b"".join(_encoded(cell, row) for cell in cells)
        for row, cells in enumerate(zip(*columns, strict=True))
    ]
    seen: dict[bytes, int] = {}
    for row, one in enumerate(ids):
        if (first := seen.setdefault(one, row)) != row:
            raise FileRejected(
                "an id comes twice: a row of one table can match one row of the other",
                place=f" at rows {first} and {row}, from 0 on",
            )
    return ids


def _encoded(cell: Any, row: int) -> bytes:
    if isinstance(cell, np.generic):
        cell = cell.item()
    is_id = isinstance(cell, str | int) and not isinstance(cell, bool)
    if not is_id or cell == "":
        is_missing = cell is None or cell == "" or (isinstance(cell, float) and cell != cell)
        found = "is missing" if is_missing else "is neither a text nor an integer"
        raise FileRejected(f"an id {found}", place=f" at row {row}, from 0 on")
    text = str(cell).encode("utf-8", "surrogatepass")
    return len(text).to_bytes(8, "little") + text


def hashed_ids(ids: Sequence[bytes], seed: bytes) -> np.ndarray:
    """Returns random words of 64 bits for each id: of its fingerprint, and one for each bin."""
    words = FINGERPRINT_WORDS + CANDIDATES
    digests = b"".join(blake2b(one, key=seed, digest_size=8 * words).digest() for one in ids)
    return np.frombuffer(digests, "<u8").reshape(len(ids), words)


def candidate_bins(hashes: np.ndarray, sizes: BinSizes) -> np.ndarray | None:
    """Returns the candidate bins of each row, one in each third; None if all bins are."""
    if not sizes.hashed:
        return None
    third = sizes.bins // CANDIDATES
    chosen = (hashes[:, FINGERPRINT_WORDS:] % np.uint64(third)).astype(np.int64)
    return chosen + third * np.arange(CANDIDATES)


def keys(hashes: np.ndarray, sizes: BinSizes, ring_bits: int) -> Tensor:
    """Returns the key of each row, as (rows, words): even integers of `key_word_bits`."""
    bits = key_word_bits(sizes, ring_bits)
    fingerprints = hashes[:, :FINGERPRINT_WORDS].copy()
    fingerprints[:, 0] <<= np.uint64(1)  # the lowest bit of a key is for empty places
    words = num_key_words(sizes, ring_bits)
    pieces = [_extracted(fingerprints, i * bits, bits) for i in range(words)]
    return torch.from_numpy(np.stack(pieces, 1).astype(np.int64))


def _extracted(words: np.ndarray, start: int, bits: int) -> np.ndarray:
    """Bits [start, start + bits) of integers in words of 64 bits; at most 63."""
    word, low = divmod(start, 64)
    value = words[:, word] >> np.uint64(low)
    if low + bits > 64:
        value = value | words[:, word + 1] << np.uint64(64 - low)
    return value & np.uint64((1 << bits) - 1)


def num_key_words(sizes: BinSizes, ring_bits: int) -> int:
    """Returns in how many ring elements a key is shared; the difference of two of them fits."""
    return -(-sizes.key_bits // (ring_bits - 1))


def key_word_bits(sizes: BinSizes, ring_bits: int) -> int:
    """Returns the bits of each of those elements."""
    return -(-sizes.key_bits // num_key_words(sizes, ring_bits))


# What stands in free places of bins: odd in the first word, and different in the two tables.
EMPTY_FIRST, EMPTY_SECOND = 1, 3
