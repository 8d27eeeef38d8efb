"""A running hash of everything two parties must agree on.

Each entry is a kind, a label and its data, every part preceded by its length, so that no two
different sequences of entries give the same bytes: moving a byte from one entry to the next, or
from a label to its data, changes the digest.
"""

from __future__ import annotations

import hashlib
from struct import pack

import torch
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

Buffer = bytes | memoryview


class Transcript:
    """SHA-256 over labelled entries. `domain` separates transcripts of different purposes."""

    def __init__(self, domain: str) -> None:
        self._hash = hashlib.sha256()
        self._enter("tacit transcript v1", domain, b"")

    def absorb(self, label: str, data: Buffer | torch.Tensor) -> Transcript:
        """Adds bytes, or a tensor with its dtype and shape; returns itself, to be chained."""
        if isinstance(data, torch.Tensor):
            self._enter(f"tensor {data.dtype} {list(data.shape)}", label, tensor_bytes(data))
        else:
            self._enter("bytes", label, data)
        return self

    def digest(self) -> bytes:
        """The 32-byte hash of all entries so far; the transcript goes on unchanged."""
        return _finish(self._hash, b"digest")

    def challenge(self, label: str, size: int) -> bytes:
        """`size` bytes that nobody could foresee before the last entry; becomes an entry itself."""
        self._enter("challenge", label, pack("<Q", size))
        seed = _finish(self._hash, b"challenge")
        return HKDFExpand(hashes.SHA256(), length=size, info=label.encode()).derive(seed)

    def _enter(self, kind: str, label: str, data: Buffer) -> None:
        start, name = kind.encode(), label.encode()
        form = f"<Q{len(start)}sQ{len(name)}sQ"
        self._hash.update(pack(form, len(start), start, len(name), name, len(data)))
        self._hash.update(data)


def _finish(state: hashlib._Hash, purpose: bytes) -> bytes:
    # A length that no entry can have keeps the ending apart from every continuation.
    state = state.copy()
    state.update(b"\xff" * 8 + purpose)
    return state.digest()


def tensor_bytes(tensor: torch.Tensor) -> memoryview:
    """The tensor's memory in row-major order, without a copy where it is already so."""
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy().data
