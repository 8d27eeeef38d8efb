"""Keyed pseudo-random words: the same bytes for the same (key, operation, offset) on any device.

A key must never be used for two purposes, and an operation number never twice with one key, unless
the same mask is wanted twice.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from torch import Tensor

from ..errors import ConfigError
from ..ring import ring_of
from ..ring.reference import stream as reference
from .backend import gpu_for, native_for


@dataclass(frozen=True)
class Spec:
    key_bytes: int
    block_bytes: int
    name: str  # in the compiled kernels

    @property
    def limit(self) -> int:
        """How many bytes one operation may draw: the block counter has 64 bits."""
        return self.block_bytes << 64


CIPHERS = {
    "aes128-ctr": Spec(16, 16, "aes128_ctr"),
    "chacha20": Spec(32, 64, "chacha20"),
}


IN_PLACE: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "add": Tensor.add_,
    "sub": Tensor.sub_,
    "xor": Tensor.bitwise_xor_,
}


@dataclass(frozen=True, eq=False)
class StreamKey:
    """A key of ChaCha20 as a device reads it. It is never shown.

    `key` is None where the key was made on the device and is known there only.
    """

    key: bytes | None = field(repr=False)
    words: Tensor = field(repr=False)  # eight int32 on the device


def stream_key(key: bytes, device: torch.device) -> StreamKey:
    """A key for many streams on one device."""
    words = torch.frombuffer(bytearray(key), dtype=torch.int32)
    return StreamKey(key, words.to(device))


def blank_key(device: torch.device) -> StreamKey:
    """Room on a device for a key that is made there."""
    return StreamKey(None, torch.empty(8, dtype=torch.int32, device=device))


def stream(
    key: bytes | StreamKey,
    out: Tensor,
    *,
    operation: int,
    offset: int = 0,
    cipher: str = "aes128-ctr",
) -> Tensor:
    """Fills `out` with bytes [offset, offset + out.nbytes) of the stream of (key, operation).

    The words are little-endian; `out` is contiguous, int32 or int64, and is returned. Block n of
    AES-128-CTR encrypts operation then n, as big-endian 64-bit numbers; ChaCha20 has its original
    layout with n as the 64-bit counter and the operation as the 64-bit nonce.
    """
    spec = _checked(out, operation, offset, cipher)
    if not out.numel():
        return out
    if (gpu := gpu_for(out)) and cipher == "chacha20":
        return gpu.chacha20(_beside(key, out), out, operation, offset)
    key = _plain(key, spec)
    if not out.is_cpu:
        host = torch.empty(out.shape, dtype=out.dtype)
        return out.copy_(stream(key, host, operation=operation, offset=offset, cipher=cipher))
    block, skip = divmod(offset, spec.block_bytes)
    if put := _compiled("stream", spec, out):
        put(key, operation, block, skip, out.data_ptr(), out.nbytes)
        return out
    if cipher == "aes128-ctr" and native_for(out):
        return _openssl_aes(key, out, operation, block, skip)
    return reference.stream(key, out, operation=operation, offset=offset, cipher=cipher)


def mask(
    key: bytes | StreamKey,
    values: Tensor,
    how: str,
    *,
    operation: int,
    offset: int = 0,
    cipher: str = "aes128-ctr",
) -> Tensor:
    """`values` with the words that `stream` would write added, subtracted or xored, in place.

    The words are not written to memory: they stay in a GPU's registers or a CPU's cache.
    """
    spec = _checked(values, operation, offset, cipher)
    if how not in IN_PLACE:
        raise ConfigError(f"how={how!r}: allowed are {', '.join(IN_PLACE)}")
    if offset % values.itemsize:
        raise ConfigError(f"offset={offset}: a multiple of {values.itemsize} bytes is needed")
    if not values.numel():
        return values
    if (gpu := gpu_for(values)) and cipher == "chacha20":
        return gpu.chacha20_mask(_beside(key, values), values, how, operation, offset)
    if put := _compiled(f"{how}{values.itemsize}", spec, values):
        block, skip = divmod(offset, spec.block_bytes)
        put(_plain(key, spec), operation, block, skip, values.data_ptr(), values.nbytes)
        return values
    words = torch.empty_like(values)
    stream(key, words, operation=operation, offset=offset, cipher=cipher)
    return IN_PLACE[how](values, words)


def _beside(key: bytes | StreamKey, out: Tensor) -> Tensor:
    """A key of ChaCha20 on the device of `out`."""
    if isinstance(key, StreamKey) and key.words.device == out.device:
        return key.words
    return stream_key(_plain(key, CIPHERS["chacha20"]), out.device).words


def _compiled(what: str, spec: Spec, out: Tensor) -> Callable[..., None] | None:
    """The compiled kernel that does so with this cipher's stream, if there is one here."""
    return getattr(native_for(out), f"{what}_{spec.name}", None)


def _plain(key: bytes | StreamKey, spec: Spec) -> bytes:
    """The key as bytes of the length that the cipher takes."""
    if isinstance(key, StreamKey):
        key = key.key or key.words.cpu().numpy().tobytes()
    if not isinstance(key, bytes) or len(key) != spec.key_bytes:
        raise ConfigError(f"key: {spec.key_bytes} bytes are needed")
    return key


def _checked(out: Tensor, operation: int, offset: int, cipher: str) -> Spec:
    spec = CIPHERS.get(cipher)
    if spec is None:
        raise ConfigError(f"cipher={cipher!r}: allowed are {', '.join(CIPHERS)}")
    if not 0 <= operation < 1 << 64:
        raise ConfigError(f"operation={operation}: allowed are 0 to 2^64 - 1")
    ring_of(out)
    if not out.is_contiguous():
        raise ConfigError("out: a contiguous tensor is needed; the stream is written in place")
    if offset < 0 or offset % 4 != 0 or offset + out.nbytes > spec.limit:
        raise ConfigError(f"offset={offset}: a multiple of 4 within {spec.limit} bytes is needed")
    return spec


def _openssl_aes(key: bytes, out: Tensor, operation: int, block: int, skip: int) -> Tensor:
    """For hosts without AES instructions: OpenSSL's counter mode, without tables that leak."""
    encryptor = Cipher(
        algorithms.AES(key), modes.CTR(struct.pack(">QQ", operation, block))
    ).encryptor()
    encryptor.update(bytes(skip))
    data = out.view(-1).numpy().view("u1").data
    step, slack = 1 << 20, 16
    zeros = bytes(step)
    done = 0
    # update_into may ask for room of one block more than it fills: the end goes another way.
    while done + slack < len(data):
        size = min(step, len(data) - slack - done)
        encryptor.update_into(zeros[:size], data[done:])
        done += size
    data[done:] = encryptor.update(zeros[: len(data) - done])
    return out
