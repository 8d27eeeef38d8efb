"""SGX quotes of a root that the test makes, in Intel's layout, and one that Intel's root signs.

`samples/sgx_dcap_quote.b64` is a quote of a real processor that was published as the test of a
verifier. Its signatures are Intel's; its enclave and its report data have nothing to do with Tacit.
"""

from __future__ import annotations

import base64
import hashlib
import struct
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import NameOID

from tacit.enclave.attestation.sgx_dcap import INTEL_QE_SIGNER, INTEL_QE_VENDOR

SAMPLE = base64.b64decode((Path(__file__).parent / "samples" / "sgx_dcap_quote.b64").read_text())
SAMPLE_TIME = datetime(2024, 10, 3, tzinfo=UTC)
SAMPLE_ENCLAVE = "ea4047329d65711f63993b9397245d44bafaee5e7d56a4906e7738f7cf697d7d"
SAMPLE_SIGNER = "83d719e77deaca1470f6baf62a4d774303c899db69020f9c70ee1dfc08c7ce9e"
MR_ENCLAVE = hashlib.sha256(b"loader").digest()


def new_key():
    return ec.generate_private_key(ec.SECP256R1())


def point(key) -> bytes:
    return key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)


def signature(key, data: bytes) -> bytes:
    r, s = decode_dss_signature(key.sign(data, ec.ECDSA(hashes.SHA256())))
    return r.to_bytes(32, "big") + s.to_bytes(32, "big")


def certificate(name, key, issuer, issuer_key, *, authority=True, days=30) -> bytes:
    names = [x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, one)]) for one in (name, issuer)]
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(names[0])
        .issuer_name(names[1])
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=60))
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        .sign(issuer_key, hashes.SHA256())
    )
    return made.public_bytes(Encoding.PEM)


def report(*, attributes=5, enclave=MR_ENCLAVE, signer=bytes(32), product=0, data=b"") -> bytes:
    fields = bytes(16), 0, bytes(28), attributes, 7, enclave, bytes(32), signer, bytes(96)
    return struct.pack("<16sI28sQQ32s32s32s96sHH60s64s", *fields, product, 0, bytes(60), data)


@dataclass
class Processor:
    """A processor of our own maker. Fields are what a test may set wrong."""

    version: int = 3
    vendor: bytes = INTEL_QE_VENDOR
    attributes: int = 5
    quoting_signer: bytes = INTEL_QE_SIGNER
    quoting_product: int = 1
    quoting_attributes: int = 0x15
    certified: bool = True
    issuer_is_authority: bool = True
    days: int = 30
    forged: str = ""  # whose signatures another key makes: root, issuer, pck or attestation

    def __post_init__(self) -> None:
        self.root, self.issuer, self.pck, self.attestation = (new_key() for _ in range(4))
        self.root_key = point(self.root)

    def _signer(self, name: str):
        return new_key() if name == self.forged else getattr(self, name)

    def quote(self, data: bytes) -> bytes:
        header = struct.pack("<HHI2H16s20s", self.version, 2, 0, 10, 15, self.vendor, bytes(20))
        signed = header + report(attributes=self.attributes, data=data)
        key, extra = point(self.attestation)[1:], bytes(range(32))
        quoting = report(
            attributes=self.quoting_attributes,
            signer=self.quoting_signer,
            product=self.quoting_product,
            data=hashlib.sha256(key + extra).digest() if self.certified else bytes(64),
        )
        chain = self._chain()
        rest = signature(self._signer("attestation"), signed) + key
        rest += quoting + signature(self._signer("pck"), quoting)
        rest += struct.pack("<H", len(extra)) + extra + struct.pack("<HI", 5, len(chain)) + chain
        return signed + struct.pack("<I", len(rest)) + rest

    def _chain(self) -> bytes:
        root, issuer = self._signer("root"), self._signer("issuer")
        return b"".join(
            [
                certificate("pck", self.pck, "issuer", issuer, authority=False, days=self.days),
                certificate(
                    "issuer", self.issuer, "root", root, authority=self.issuer_is_authority
                ),
                certificate("root", self.root, "root", root),
            ]
        )
