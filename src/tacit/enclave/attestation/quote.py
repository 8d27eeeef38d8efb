"""A quote: evidence that an enclave with this measurement holds this key, for one asker's nonce."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cached_property

from ...crypto import Transcript, public_key_fingerprint
from ...errors import AttestationRejected
from .measurement import MAX_MANIFEST_BYTES, Manifest

NONCE_BYTES = 32
REPORT_DATA_BYTES = 32
MAX_EVIDENCE_BYTES = 1 << 16
_MAGIC = b"TACITQ01"
_HEAD = struct.Struct(f"<8sBII{REPORT_DATA_BYTES}s")  # magic; sizes of three parts; report data
_MAX_BACKEND = 32


@dataclass(frozen=True)
class Quote:
    """What a backend says of an enclave. `verify` says whether to believe it.

    backend: who made the evidence, such as "simulated" or "sgx-dcap".
    manifest: what was measured, by name; the evidence covers its digest.
    report_data: binds the enclave's key and the asker's nonce, see `report_data`.
    evidence: a signature, or the whole quote of the hardware, in the backend's own format.
    """

    backend: str
    manifest: Manifest
    report_data: bytes
    evidence: bytes

    @cached_property
    def measurement(self) -> bytes:
        """The digest of the manifest."""
        return self.manifest.digest()

    def encode(self) -> bytes:
        name, manifest = self.backend.encode("ascii"), self.manifest.encode()
        sizes = len(name), len(manifest), len(self.evidence)
        return _HEAD.pack(_MAGIC, *sizes, self.report_data) + name + manifest + self.evidence

    @classmethod
    def decode(cls, data: bytes) -> Quote:
        """Returns the quote that a stranger's bytes encode; AttestationRejected if they do not."""
        if len(data) < _HEAD.size or data[: len(_MAGIC)] != _MAGIC:
            raise AttestationRejected("the answer of the host is not a quote")
        _, name, manifest, evidence, bound = _HEAD.unpack_from(data)
        _require(0 < name <= _MAX_BACKEND, "the name of its backend")
        _require(manifest <= MAX_MANIFEST_BYTES, "its manifest")
        _require(evidence <= MAX_EVIDENCE_BYTES, "its evidence")
        _require(len(data) == _HEAD.size + name + manifest + evidence, "the quote")
        parts = data[_HEAD.size :]
        backend, parts = parts[:name], parts[name:]
        _require(backend.isascii() and backend.decode().isprintable(), "the name of its backend")
        measured, evidence = Manifest.decode(parts[:manifest]), parts[manifest:]
        return cls(backend.decode(), measured, bound, evidence)


def report_data(certificate: bytes, nonce: bytes) -> bytes:
    """Returns H(enclave key, nonce): only a quote made for this nonce and this key carries it.

    The certificate is PEM; its public key alone counts. The nonce is the asker's, fresh each time.
    """
    if len(nonce) != NONCE_BYTES:
        raise AttestationRejected(f"a nonce of {len(nonce)} bytes", limit=f"{NONCE_BYTES} bytes")
    try:
        key = bytes.fromhex(public_key_fingerprint(certificate))
    except Exception as error:  # whatever the parser makes of a stranger's bytes
        raise AttestationRejected("the certificate of the enclave cannot be read") from error
    return Transcript("enclave report data").absorb("key", key).absorb("nonce", nonce).digest()


def _require(condition: bool, what: str) -> None:
    if not condition:
        raise AttestationRejected(f"{what} has a size or a form that no quote has")
