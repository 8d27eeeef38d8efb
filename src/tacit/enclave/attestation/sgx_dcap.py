"""Verifies quotes of Intel SGX: format version 3, ECDSA over P-256, with a chain of certificates.

Layout, little-endian (Intel SGX ECDSA Quote Library Reference, appendix A.4):

    header 48 | report of the enclave 384 | size 4 | signature 64 | attestation key 64
    | report of the quoting enclave 384 | its signature 64 | size 2, bytes | kind 2, size 4, chain

The chain of trust: Intel's root signs the certificate of the processor's key (PCK); that key signs
the report of the quoting enclave; the report holds the hash of the attestation key; and this key
signs the report of the enclave.

NOTE [sgx binding] MRENCLAVE measures the loader that runs Python inside SGX. The loader measures
what it loads and writes H(key, nonce) and the digest of the manifest into its 64 bytes of report
data. Whoever trusts the loader's MRENCLAVE therefore trusts the manifest.

Not checked: whether the processor's microcode is up to date (Intel's TCB info), and revocation.
Both need Intel's current lists; see SECURITY.md.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from ...errors import AttestationRejected
from .quote import Quote

NAME = "sgx-dcap"
# The public key of "Intel SGX Root CA", as an uncompressed point of P-256.
INTEL_ROOT_KEY = bytes.fromhex(
    "040ba9c4c0c0c86193a3fe23d6b02cda10a8bbd4e88e48b4458561a36e705525f5"
    "67918e2edc88e40d860bd0cc4ee26aacc988e505a953558c453f6b0904ae7394"
)
# The signer of Intel's quoting enclave, and its product number.
INTEL_QE_SIGNER = bytes.fromhex("8c4f5775d796503e96137f77c68a829a0056ac8ded70140b081b094490c57bff")
INTEL_QE_PRODUCT = 1
INTEL_QE_VENDOR = bytes.fromhex("939a7233f79c4ca9940a0db3957f0607")

_HEADER = struct.Struct("<HHI2H16s20s")  # version, key type, reserved, 2 SVN, vendor, user data
_REPORT = struct.Struct("<16sI28sQQ32s32s32s96sHH60s64s")
_SIGNATURE, _KEY = 64, 64
_ECDSA_P256, _PEM_CHAIN = 2, 5
_DEBUG = 2  # in the attributes: a debugger can read the enclave
_MAX_CERTIFICATES = 4


@dataclass(frozen=True)
class SgxPolicy:
    """Which SGX enclaves an owner trusts: the MRENCLAVE of each, and the root of certificates.

    `root_key` is another than Intel's in tests alone; `at` is the time to check, by default now.
    """

    enclaves: frozenset[bytes]
    root_key: bytes = INTEL_ROOT_KEY
    at: datetime | None = None


class Report(NamedTuple):
    """What SGX says of one enclave."""

    attributes: int
    mr_enclave: bytes
    mr_signer: bytes
    product: int
    version: int
    data: bytes


def check(quote: Quote, policy: SgxPolicy) -> None:
    """Raises AttestationRejected unless a trusted SGX enclave reported this measurement."""
    report = read_report(quote.evidence, root_key=policy.root_key, at=policy.at)
    if report.mr_enclave not in policy.enclaves:
        raise AttestationRejected(
            f"the SGX enclave has the MRENCLAVE {report.mr_enclave.hex()}",
            limit="the owner trusts others",
            field="MRENCLAVE",
        )
    if report.data != quote.report_data + quote.measurement:  # NOTE [sgx binding]
        raise AttestationRejected(
            "the SGX quote is for another measurement, key or nonce", field="report data"
        )


def read_report(evidence: bytes, *, root_key: bytes, at: datetime | None = None) -> Report:
    """Returns the enclave's report from a quote whose signatures lead to the root key."""
    parts = _Reader(evidence)
    signed = parts.take(_HEADER.size + _REPORT.size)
    version, kind, reserved, _, _, vendor, _ = _HEADER.unpack_from(signed)
    _require((version, kind, reserved) == (3, _ECDSA_P256, 0), "is not version 3 with ECDSA P-256")
    _require(vendor == INTEL_QE_VENDOR, "is made by a quoting enclave that is not Intel's")
    _require(parts.number(4) == parts.left, "has another length than it says")
    signature, key = parts.take(_SIGNATURE), parts.take(_KEY)
    quoting, quoting_signature = parts.take(_REPORT.size), parts.take(_SIGNATURE)
    extra = parts.take(parts.number(2))
    _require(parts.number(2) == _PEM_CHAIN, "carries no chain of certificates")
    _require(parts.number(4) == parts.left, "has another length than it says")
    processor = _leaf(parts.take(parts.left), root_key, at or datetime.now(UTC))
    _verify(processor, quoting_signature, quoting, "of the quoting enclave")
    _check_quoting_enclave(_report(quoting), hashlib.sha256(key + extra).digest())
    _verify(_point(b"\4" + key), signature, signed, "of the report")
    report = _report(signed[_HEADER.size :])
    _require(not report.attributes & _DEBUG, "is of a debug enclave, whose memory can be read")
    return report


def _check_quoting_enclave(report: Report, key_hash: bytes) -> None:
    _require(report.mr_signer == INTEL_QE_SIGNER, "has a quoting enclave of another signer")
    _require(report.product == INTEL_QE_PRODUCT, "has a quoting enclave of another product")
    _require(not report.attributes & _DEBUG, "has a quoting enclave in debug mode")
    _require(report.data == key_hash + bytes(32), "has an attestation key that is not certified")


def _report(data: bytes) -> Report:
    fields = _REPORT.unpack(data)
    return Report(fields[3], fields[5], fields[7], fields[9], fields[10], fields[12])


def _leaf(chain: bytes, root_key: bytes, at: datetime) -> ec.EllipticCurvePublicKey:
    """Returns the key of a PEM chain's first certificate, if the chain ends in the root key."""
    try:
        certificates = x509.load_pem_x509_certificates(chain.rstrip(b"\0"))
        _require(len(certificates) <= _MAX_CERTIFICATES, "has too long a chain of certificates")
        for one in certificates:
            valid = one.not_valid_before_utc <= at <= one.not_valid_after_utc
            _require(valid, "has a certificate that is not valid at this time")
        for one, issuer in zip(certificates, certificates[1:] + certificates[-1:], strict=True):
            _check_issued(one, issuer)
        root = certificates[-1].public_key()
        point = root.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
        _require(point == root_key, "has certificates of another root than Intel's")
        key = certificates[0].public_key()
    except AttestationRejected:
        raise
    except Exception as error:  # whatever the parser makes of a stranger's bytes
        raise AttestationRejected("the SGX quote has certificates that cannot be read") from error
    if not isinstance(key, ec.EllipticCurvePublicKey) or key.curve.name != "secp256r1":
        raise AttestationRejected("the SGX quote has a processor key that is not of P-256")
    return key


def _check_issued(one: x509.Certificate, issuer: x509.Certificate) -> None:
    authority = issuer.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    _require(authority, "has a certificate whose issuer is no authority")
    try:
        one.verify_directly_issued_by(issuer)
    except InvalidSignature:
        raise AttestationRejected("the SGX quote has a certificate with a bad signature") from None


def _verify(key: ec.EllipticCurvePublicKey, signature: bytes, signed: bytes, which: str) -> None:
    halves = (int.from_bytes(half, "big") for half in (signature[:32], signature[32:]))
    try:
        key.verify(encode_dss_signature(*halves), signed, ec.ECDSA(hashes.SHA256()))
    except InvalidSignature:
        raise AttestationRejected(f"the signature {which} in the SGX quote is wrong") from None


def _point(data: bytes) -> ec.EllipticCurvePublicKey:
    try:
        return ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), data)
    except ValueError as error:
        raise AttestationRejected("the SGX quote has a key that is no point of P-256") from error


def _require(condition: bool, what: str) -> None:
    if not condition:
        raise AttestationRejected(f"the SGX quote {what}")


class _Reader:
    """Takes parts off a quote, and refuses one that is too short."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    @property
    def left(self) -> int:
        return len(self._data) - self._at

    def take(self, size: int) -> bytes:
        _require(size <= self.left, "is cut short")
        self._at += size
        return self._data[self._at - size : self._at]

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "little")
