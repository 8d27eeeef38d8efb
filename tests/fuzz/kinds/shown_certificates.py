"""Certificates that a party has signed with its pinned key, and shows in the place of its own."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from random import Random
from threading import Thread
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tacit.transport import Identity
from tacit.transport.setup.admission import Admission
from tacit.transport.wire.tls import Credentials

from ..attempts import Case
from ..der import ED25519, bits, pem, sequence
from ..links import pair
from ..mutate import mutations
from .hellos import SECONDS
from .secure_hellos import papers, speak

SIGNER = ed25519.Ed25519PrivateKey.from_private_bytes(b"the key that party 1 signs with!")


@cache
def built(key: Any, issuer: str = "party1", *, ca: bool = False) -> x509.Certificate:
    now = datetime.now(UTC)
    names = [
        x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        for name in ("party1" if ca else "delegate", issuer)
    ]
    return (
        x509.CertificateBuilder()
        .subject_name(names[0])
        .issuer_name(names[1])
        .public_key(key.public_key())
        .serial_number(12345)
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        .sign(SIGNER, None)
    )


def signed(tbs: bytes) -> bytes:
    """Whatever it is, with a good signature of party 1."""
    return pem("CERTIFICATE", sequence(tbs, ED25519, bits(SIGNER.sign(tbs))))


def context(certificate: bytes, key: Any, path: Path, *, server: bool) -> ssl.SSLContext | None:
    """The context of one that shows the certificate, if OpenSSL lends itself to that."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    made.check_hostname, made.verify_mode = False, ssl.CERT_NONE
    own = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path.write_bytes(certificate + built(SIGNER, ca=True).public_bytes(Encoding.PEM) + own)
    try:
        made.load_cert_chain(path)
    except ssl.SSLError:
        return None
    return made


def meet(admission: Admission, shown: ssl.SSLContext, *, dialled: bool) -> None:
    near, far = pair()
    thread = Thread(target=speak, args=(far, shown, dialled, b"hello"))
    thread.start()
    try:
        stream = admission.enter(near, server=not dialled)
        with admission.handshake(stream, seconds=SECONDS):
            admission.require(stream, 1)
        stream.close()
    finally:
        near.close()
        thread.join()


def cases(random: Random, count: int, folder: Path) -> Iterator[Case]:
    pinned = built(SIGNER, ca=True).public_bytes(Encoding.PEM)
    own = papers(0)
    peers = (own.certificate, pinned)
    admission = Admission(Credentials(Identity(own.certificate, own.private_key, peers)))
    path = folder / "shown.pem"

    def case(what: str, certificate: bytes, key: Any, *, hostile: bool = True) -> Iterator[Case]:
        for dialled in (False, True):
            shown = context(certificate, key, path, server=dialled)
            if shown is not None:
                act = lambda s=shown, d=dialled: meet(admission, s, dialled=d)  # noqa: E731
                yield Case(f"{what}, {'dialled' if dialled else 'dials'}", act, hostile=hostile)

    yield from list(case("valid", b"", SIGNER, hostile=False))[:1]
    keys = [
        ed25519.Ed25519PrivateKey.generate(),
        ed448.Ed448PrivateKey.generate(),
        ec.generate_private_key(ec.SECP256R1()),
        ec.generate_private_key(ec.SECP521R1()),
        ec.generate_private_key(ec.BrainpoolP256R1()),
        rsa.generate_private_key(65537, 2048),
    ]
    for key in keys:
        leaf = built(key)
        yield from case(type(key).__name__, leaf.public_bytes(Encoding.PEM), key)
        tbs = leaf.tbs_certificate_bytes
        serial, version = b"\x02\x02\x30\x39", b"\xa0\x03\x02\x01\x02"
        for what, old, new in (
            ("a negative serial number", serial, b"\x02\x02\xb0\x39"),
            ("an empty serial number", serial, b"\x02\x00\x05\x00"),
            ("a version to come", version, b"\xa0\x03\x02\x01\x07"),
        ):
            yield from case(what, signed(tbs.replace(old, new, 1)), key)
        for seed in range(count // len(keys) // 4):
            for what, spoilt in mutations(tbs, seed=random.randrange(1 << 30) + seed, count=10):
                if len(spoilt) < 10_000:
                    yield from case(f"{what} of {type(key).__name__}", signed(spoilt), key)
