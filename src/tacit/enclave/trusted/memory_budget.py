"""How the limit of an enclave's memory is divided: chunks, and what nobody counts."""

from __future__ import annotations

from ..edl import FRAME_BYTES
from .chunk_cipher import TAG_BYTES
from .pages import PAGE

LIMIT_BYTES = 90_000_000  # what the first generation of SGX leaves to an enclave
CHUNK_BYTES = 1 << 20
MIN_CHUNKS = 64  # of the limit
# OpenBLAS keeps memory for packed operands, and oneDNN its primitives: 11.2 MB after products of up
# to 3000 x 3000 x 3000 and convolutions, on an ARM processor with one thread.
LIBRARY_BYTES = 12 << 20
SMALL_BLOCKS = 2 << 20  # bytes of blocks below LARGE_BYTES, and of ends of pages
SMALL_LIMIT = MIN_CHUNKS * PAGE


def chunk_bytes_for(limit: int) -> int:
    """Returns the size of chunks for a limit: 1 MiB, or less so that many of them fit."""
    return min(CHUNK_BYTES, limit // MIN_CHUNKS // PAGE * PAGE)


def reserve(limit: int, connections: int, multiplies: bool, num_threads: int = 0) -> int:
    """Returns the bytes of a limit that are left to what nobody counts.

    These are small blocks, ends of pages, the sealed bytes of a chunk at each thread, and two
    frames of each of the connections that are relayed to the enclave; if it multiplies itself, also
    what libraries of torch keep. Of a small limit each is an eighth at most, which may be too
    little.
    """
    chunk = chunk_bytes_for(limit) + PAGE + TAG_BYTES
    blocks = min(
        SMALL_BLOCKS + (1 + num_threads) * chunk + 2 * FRAME_BYTES * connections, limit // 8
    )
    return blocks + (min(LIBRARY_BYTES, limit // 8) if multiplies else 0)
