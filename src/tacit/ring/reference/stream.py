"""Keyed pseudo-random bytes, block by block: AES-128 in counter mode (FIPS 197) and ChaCha20."""

from __future__ import annotations

import struct

import torch
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from torch import Tensor

MASK32 = 0xFFFFFFFF


def aes_block(key: bytes, operation: int, counter: int) -> bytes:
    """Returns AES-128 of 16 bytes: the operation, then the counter, both big-endian."""
    encryptor = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
    return encryptor.update(struct.pack(">QQ", operation, counter))


def quarter_round(x: list[int], a: int, b: int, c: int, d: int) -> None:
    """Applies the quarter round (RFC 8439, 2.1) to four words of x, in place."""
    for add, to, rotated, bits in ((b, a, d, 16), (d, c, b, 12), (b, a, d, 8), (d, c, b, 7)):
        x[to] = (x[to] + x[add]) & MASK32
        mixed = x[rotated] ^ x[to]
        x[rotated] = (mixed << bits | mixed >> (32 - bits)) & MASK32


def chacha20_permutation(start: list[int]) -> list[int]:
    """Returns the sum of the start and its state after twenty rounds (RFC 8439, 2.3)."""
    x = list(start)
    for _ in range(10):
        for i in range(4):
            quarter_round(x, i, 4 + i, 8 + i, 12 + i)
        for i in range(4):
            quarter_round(x, i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4)
    return [(a + b) & MASK32 for a, b in zip(x, start, strict=True)]


def chacha20_block(key: bytes, operation: int, counter: int) -> bytes:
    """Returns a block in the original layout: 64-bit counter, then 64-bit nonce (the operation)."""
    start = struct.unpack(
        "<16I", b"expand 32-byte k" + key + struct.pack("<QQ", counter, operation)
    )
    return struct.pack("<16I", *chacha20_permutation(list(start)))


BLOCKS = {"aes128-ctr": (aes_block, 16), "chacha20": (chacha20_block, 64)}


def keystream(key: bytes, operation: int, offset: int, num_bytes: int, cipher: str) -> bytes:
    """Returns bytes [offset, offset + num_bytes) of the stream of (key, operation)."""
    block, size = BLOCKS[cipher]
    first, skip = divmod(offset, size)
    count = -(-(skip + num_bytes) // size)
    whole = b"".join(block(key, operation, first + i) for i in range(count))
    return whole[skip : skip + num_bytes]


def stream(
    key: bytes, out: Tensor, *, operation: int, offset: int = 0, cipher: str = "aes128-ctr"
) -> Tensor:
    """Fills `out` with the stream, words little-endian, and returns it."""
    data = keystream(key, operation, offset, out.nbytes, cipher)
    words = struct.unpack(f"<{out.numel()}{'i' if out.dtype == torch.int32 else 'q'}", data)
    return out.copy_(torch.tensor(words, dtype=out.dtype).view(out.shape))
