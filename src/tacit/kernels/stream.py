"""Keyed pseudo-random words: the same bytes for the same (key, operation, offset) on any device.

The operation number is the nonce of the cipher, the offset a place in its stream. Never use a key
for two purposes, nor an operation number twice with one key: two masks would be equal, and the
difference of two masked values would be that of the values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from ..errors import ConfigError
from ..ring import ring_of
from ..ring.reference import stream as reference
from .backend import address, gpu_for, native_for


@dataclass(frozen=True)
class CipherSpec:
    """The sizes of a cipher."""

    key_bytes: int
    block_bytes: int
    name: str  # in the compiled kernels

    @property
    def limit(self) -> int:
        """How many bytes one operation number may draw: the block counter has 64 bits."""
        return self.block_bytes << 64


CIPHERS = {
    "aes128-ctr": CipherSpec(16, 16, "aes128_ctr"),
    "chacha20": CipherSpec(32, 64, "chacha20"),
}


STREAMS_BLOCK = 64  # bytes: blocks of either cipher
MOST_STREAMS = 5  # that one kernel of a GPU writes

IN_PLACE: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "add": Tensor.add_,
    "sub": Tensor.sub_,
    "xor": Tensor.bitwise_xor_,
}


@dataclass(frozen=True, eq=False)
class StreamKey:
    """A key of ChaCha20 in a device's memory. `repr` does not show it.

    `key` is None if the key was made on the device and is known only there.
    """

    key: bytes | None = field(repr=False)
    words: Tensor = field(repr=False)  # eight int32 on the device


def stream_key(key: bytes, device: torch.device) -> StreamKey:
    """Returns a key for many streams on one device."""
    words = torch.frombuffer(bytearray(key), dtype=torch.int32)
    placed = words.to(device)
    if placed is not words:
        words.zero_()
    return StreamKey(key, placed)


def blank_key(device: torch.device) -> StreamKey:
    """Returns uninitialized memory on a device for a key that is made there."""
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

    Returns `out`, which is contiguous, int32 or int64; words are little-endian. Block n of
    AES-128-CTR is the encryption of the operation number, then n, both big-endian with 64 bits.
    ChaCha20 is Bernstein's original: n is its 64-bit counter, the operation its 64-bit nonce.
    """
    spec = check_stream(out, operation, offset, cipher)
    if not out.numel():
        return out
    if (gpu := gpu_for(out)) and cipher == "chacha20":
        return gpu.chacha20(key_words(key, out), out, operation, offset)
    key = _key_bytes(key, spec)
    if not out.is_cpu:
        host = torch.empty(out.shape, dtype=out.dtype)
        return out.copy_(stream(key, host, operation=operation, offset=offset, cipher=cipher))
    block, skip = divmod(offset, spec.block_bytes)
    if put := _compiled("stream", spec, out):
        put(key, operation, block, skip, address(out), out.nbytes)
        return out
    return reference.stream(key, out, operation=operation, offset=offset, cipher=cipher)


def streams(
    keys: Sequence[bytes | StreamKey],
    out: Tensor,
    sizes: Sequence[int],
    *,
    operation: int,
    offsets: Sequence[int],
    cipher: str = "aes128-ctr",
) -> Tensor:
    """Fills `out` with bytes of several streams, one after the other; returns `out`.

    sizes, offsets: as in `stream`, of each, multiples of 64 bytes. On a GPU it is one kernel.
    """
    if any(number % STREAMS_BLOCK for number in (*sizes, *offsets)) or sum(sizes) != out.nbytes:
        limit = f"multiples of {STREAMS_BLOCK} that fill `out` are needed"
        raise ConfigError(f"sizes={tuple(sizes)}, offsets={tuple(offsets)}", limit=limit)
    check_stream(out, operation, max(offsets), cipher)
    gpu = gpu_for(out)
    if gpu and cipher == "chacha20" and len(keys) <= MOST_STREAMS and out.data_ptr() % 16 == 0:
        words = [key_words(key, out) for key in keys]
        counts, firsts = ([x // STREAMS_BLOCK for x in of] for of in (sizes, offsets))
        return gpu.chacha20_many(words, out, counts, operation, firsts)
    pieces = out.view(-1).view(torch.int64).split([size // 8 for size in sizes])
    for key, piece, offset in zip(keys, pieces, offsets, strict=True):
        stream(key, piece, operation=operation, offset=offset, cipher=cipher)
    return out


def mask(
    key: bytes | StreamKey,
    values: Tensor,
    how: str,
    *,
    operation: int,
    offset: int = 0,
    cipher: str = "aes128-ctr",
) -> Tensor:
    """Adds, subtracts or XORs the words that `stream` would write to `values`, in place.

    Returns `values`. `how` is "add", "sub" or "xor". The words are not written to memory: they stay
    in a GPU's registers or a CPU's cache.
    """
    spec = check_stream(values, operation, offset, cipher)
    if how not in IN_PLACE:
        raise ConfigError(f"how={how!r}", limit=f"allowed are {', '.join(IN_PLACE)}")
    if offset % values.itemsize:
        limit = f"a multiple of {values.itemsize} bytes is needed"
        raise ConfigError(f"offset={offset}", limit=limit)
    if not values.numel():
        return values
    if (gpu := gpu_for(values)) and cipher == "chacha20":
        return gpu.chacha20_mask(key_words(key, values), values, how, operation, offset)
    if put := _compiled(f"{how}{values.itemsize}", spec, values):
        block, skip = divmod(offset, spec.block_bytes)
        put(_key_bytes(key, spec), operation, block, skip, address(values), values.nbytes)
        return values
    words = torch.empty_like(values)
    stream(key, words, operation=operation, offset=offset, cipher=cipher)
    return IN_PLACE[how](values, words)


def key_words(key: bytes | StreamKey, out: Tensor) -> Tensor:
    """Returns the words of a ChaCha20 key on the device of `out`."""
    if isinstance(key, StreamKey) and key.words.device == out.device:
        return key.words
    return stream_key(_key_bytes(key, CIPHERS["chacha20"]), out.device).words


def _compiled(what: str, spec: CipherSpec, out: Tensor) -> Callable[..., None] | None:
    """Returns the compiled kernel of this name for a cipher, or None if there is none here."""
    return getattr(native_for(out), f"{what}_{spec.name}", None)


def _key_bytes(key: bytes | StreamKey, spec: CipherSpec) -> bytes:
    """Returns the key as bytes; raises unless it has the length that the cipher takes."""
    if isinstance(key, StreamKey):
        key = key.key or key.words.cpu().numpy().tobytes()
    if not isinstance(key, bytes) or len(key) != spec.key_bytes:
        raise ConfigError("key", limit=f"{spec.key_bytes} bytes are needed")
    return key


def check_stream(out: Tensor, operation: int, offset: int, cipher: str) -> CipherSpec:
    """Returns the sizes of the cipher; raises unless the arguments are allowed."""
    spec = CIPHERS.get(cipher)
    if spec is None:
        raise ConfigError(f"cipher={cipher!r}", limit=f"allowed are {', '.join(CIPHERS)}")
    if not 0 <= operation < 1 << 64:
        raise ConfigError(f"operation={operation}", limit="allowed are 0 to 2^64 - 1")
    if out.dtype not in (torch.int32, torch.int64):
        ring_of(out)  # raises
    if not out.is_contiguous():
        limit = "a contiguous tensor is needed, because the stream is written in place"
        raise ConfigError("out", limit=limit)
    if offset < 0 or offset % 4 != 0 or offset + out.nbytes > spec.limit:
        limit = f"a multiple of 4 within {spec.limit} bytes is needed"
        raise ConfigError(f"offset={offset}", limit=limit)
    return spec
