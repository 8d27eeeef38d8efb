"""AES in counter mode by OpenSSL, in the place of the kernel that builds without AES lack.

A loop over S-box tables would leak the key through the cache. OpenSSL has vector code instead.
"""

from __future__ import annotations

import struct
from ctypes import c_ubyte

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

_STEP = 1 << 20  # bytes that are encrypted at a time
_ZEROS = bytes(_STEP)
_SLACK = 16  # update_into may ask for a buffer that is one block longer than what it fills


def stream_aes128_ctr(
    key: bytes, operation: int, block: int, skip: int, out: int, num_bytes: int
) -> None:
    """Writes bytes of the stream that begins at `block`, beyond the first `skip`, to an address.

    The name and the arguments are those of the compiled kernel (csrc/stream.cpp).
    """
    if not num_bytes:
        return
    counter = modes.CTR(struct.pack(">QQ", operation, block))
    encryptor = Cipher(algorithms.AES(key), counter).encryptor()
    encryptor.update(bytes(skip))
    data = memoryview((c_ubyte * num_bytes).from_address(out)).cast("B")
    done = 0
    while done + _SLACK < num_bytes:
        size = min(_STEP, num_bytes - _SLACK - done)
        encryptor.update_into(_ZEROS[:size], data[done:])
        done += size
    data[done:] = encryptor.update(_ZEROS[: num_bytes - done])
