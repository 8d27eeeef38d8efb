"""Who a party is: an Ed25519 key and a self-signed certificate, which its peers pin."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from cryptography.x509.oid import NameOID

from ..errors import ConfigError
from .key_file import seal

CLOCK_SKEW = timedelta(hours=1)


@dataclass(frozen=True)
class Credentials:
    """A certificate to hand to the peers, as PEM, and what the file of the private key holds."""

    certificate: bytes
    private_key: bytes = field(repr=False)


def create_credentials(
    name: str, *, valid_for: timedelta = timedelta(days=365), passphrase: str | None = None
) -> Credentials:
    """Returns a new identity called `name`. The name is for people: peers trust only the key.

    With a passphrase the private key is sealed; see `key_file`.
    """
    if not 1 <= len(name) <= 64:
        raise ConfigError(f"name={name!r}: a certificate's name has 1 to 64 characters")
    if valid_for <= timedelta(0):
        raise ConfigError(
            f"valid_for={valid_for}", limit="a certificate must be valid for some time"
        )
    if passphrase == "":
        raise ConfigError(
            "passphrase is empty", remedy="give one, or None for a key that is not encrypted"
        )
    key = Ed25519PrivateKey.generate()
    certificate = _unsigned(name, key, valid_for).sign(key, algorithm=None)
    plain = Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    private = seal(key, passphrase) if passphrase else key.private_bytes(*plain)
    return Credentials(certificate.public_bytes(Encoding.PEM), private)


def public_key_fingerprint(certificate: bytes) -> str:
    """Returns SHA-256 of the public key in a PEM certificate, in hex, for people to compare."""
    public = x509.load_pem_x509_certificate(certificate).public_key()
    encoded = public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(encoded).hexdigest()


def certificate_from_der(der: bytes) -> bytes:
    """Returns a valid Ed25519 certificate as PEM; ConfigError says what is wrong with it."""
    try:
        certificate = x509.load_der_x509_certificate(der)
        key, since, until = _key_and_dates(certificate)
        pem = certificate.public_bytes(Encoding.PEM)
    except Exception as error:  # whatever the parser makes of a stranger's bytes
        raise ConfigError("it is not a certificate in DER form") from error
    if not isinstance(key, Ed25519PublicKey):
        raise ConfigError("its key is of another kind than Ed25519, the one kind that is allowed")
    now = datetime.now(UTC)
    if now > until:
        raise ConfigError(
            f"it has expired on {_written(until)}", remedy="its party has to make a new one"
        )
    if now < since:
        raise ConfigError(f"it is valid from {_written(since)} on", remedy="is the clock right?")
    return pem


def certificate_to_der(certificate: bytes) -> bytes:
    """Returns a PEM certificate in DER form."""
    return x509.load_pem_x509_certificate(certificate).public_bytes(Encoding.DER)


def valid_until(certificate: bytes) -> datetime:
    """Returns when a PEM certificate expires."""
    return x509.load_pem_x509_certificate(certificate).not_valid_after_utc


def _key_and_dates(certificate: x509.Certificate) -> tuple[object, datetime, datetime]:
    dates = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return certificate.public_key(), *dates


def _written(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M} UTC"


def _unsigned(name: str, key: Ed25519PrivateKey, valid_for: timedelta) -> x509.CertificateBuilder:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(now + valid_for)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_signing_only(), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _signing_only() -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )
