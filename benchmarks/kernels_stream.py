"""`stream` against OpenSSL's own keystream into a preallocated buffer, `mask` against both of its
steps apart, one thread."""

from __future__ import annotations

from collections.abc import Callable

import torch
from benchmarks.measure import Row, interleaved, one_thread, rate
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from tacit.kernels import mask, stream

NUM_BYTES = 64 << 20
TARGET = 0.8

NOTES = {
    "aes128-ctr": (
        "limit: 10 pairs of AES instructions a block, one pair a cycle on a core with one AES "
        "unit, 1.6 bytes a cycle (4.0 GB/s at 2.5 GHz); reached about 0.84 of it, as OpenSSL; the "
        "rest is making counters and storing"
    ),
    "chacha20": (
        "limit: 128 vector operations for 4 blocks and a double round at two a cycle, with two "
        "more blocks in the scalar units, 0.55 bytes a cycle (1.4 GB/s at 2.5 GHz); reached about "
        "0.7 of it: the issue width and the latency of a quarter round bind as tightly"
    ),
}


def openssl(cipher: str) -> Callable[[], object]:
    zeros, buffer = bytes(NUM_BYTES), bytearray(NUM_BYTES + 15)
    if cipher == "aes128-ctr":
        encryptor = Cipher(algorithms.AES(bytes(16)), modes.CTR(bytes(16))).encryptor()
    else:
        encryptor = Cipher(algorithms.ChaCha20(bytes(32), bytes(16)), None).encryptor()
    return lambda: encryptor.update_into(zeros, buffer)


def row(cipher: str, key: bytes) -> Row:
    out = torch.empty(NUM_BYTES // 8, dtype=torch.int64)
    seconds = interleaved(
        {
            "ours": lambda: stream(key, out, operation=1, cipher=cipher),
            "OpenSSL update_into": openssl(cipher),
        }
    )
    name, pair = f"stream {cipher}, 64 MB", ("ours", "OpenSSL update_into")
    return rate(name, NUM_BYTES, "GB/s", seconds, pair, target=TARGET, note=NOTES[cipher])


def mask_row(cipher: str, key: bytes) -> Row:
    values, made = (torch.zeros(NUM_BYTES // 8, dtype=torch.int64) for _ in range(2))
    seconds = interleaved(
        {
            "ours": lambda: mask(key, values, "sub", operation=1, cipher=cipher),
            "stream, then subtract": lambda: values.sub_(
                stream(key, made, operation=1, cipher=cipher)
            ),
        }
    )
    name, pair = f"mask {cipher}, 64 MB", ("ours", "stream, then subtract")
    return rate(name, NUM_BYTES, "GB/s", seconds, pair, target=1.0)


def rows() -> list[Row]:
    """Both ciphers on one thread."""
    keys = {"aes128-ctr": bytes(16), "chacha20": bytes(32)}
    with one_thread():
        return [made(*pair) for made in (row, mask_row) for pair in keys.items()]
