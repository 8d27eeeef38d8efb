"""Certificates of a party file, and those of an identity."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from tests.runtime.party_files import blocks, credentials

from tacit.crypto import certificate_to_der
from tacit.runtime.deploy.party_file import read_party_file
from tacit.transport import Identity
from tacit.transport.wire.tls import Credentials

from ..attempts import Case, plant
from ..der import pem
from ..mutate import mutations
from .shown_certificates import SIGNER, built, signed


def _crafted() -> Iterator[tuple[str, bytes]]:
    tbs = built(SIGNER, ca=True).tbs_certificate_bytes
    serial, version = b"\x02\x02\x30\x39", b"\xa0\x03\x02\x01\x02"
    dates = tbs.index(b"\x17\x0d")
    for what, data in (
        ("an empty serial number", tbs.replace(serial, b"\x02\x00\x05\x00", 1)),
        ("a version to come", tbs.replace(version, b"\xa0\x03\x02\x01\x07", 1)),
        ("a date that is none", tbs[:dates] + b"\x17\x0d991332256199Z" + tbs[dates + 15 :]),
        ("an old date", tbs[: dates + 15] + b"\x17\x0d010101000000Z" + tbs[dates + 30 :]),
        ("a late date", tbs[:dates] + b"\x17\x0d490101000000Z" + tbs[dates + 15 :]),
        ("a key of another kind", tbs.replace(b"\x2b\x65\x70\x03", b"\x2b\x65\x7a\x03")),
        ("a key that is no point", tbs.replace(b"\x03\x21\x00", b"\x03\x21\x07")),
    ):
        yield what, base64.b64decode(b"".join(signed(data).split(b"\n")[1:-2]))
    yield "nested", b"\x30\x80" * 20_000
    yield "nothing", b""
    key = ec.generate_private_key(ec.SECP256R1())
    request = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
    yield "a request", request.sign(key, SHA256()).public_bytes(Encoding.DER)


def cases(random: Random, count: int, folder: Path) -> Iterator[Case]:
    own = credentials("alice")
    plant("the private key", own.private_key.split(b"\n")[1])
    identity = Identity(own.certificate, own.private_key, (own.certificate,))
    der = certificate_to_der(own.certificate)
    parties = blocks([7001, 7002, 7003])
    path = folder / "parties.toml"

    def in_party_file(data: bytes) -> None:
        block = parties[0].split("certificate")[0]
        text = f'{block}certificate = "{base64.b64encode(data).decode()}"\n'
        path.write_text("\n".join([text, *parties[1:]]))
        read_party_file(path)

    def of_peer(data: bytes) -> None:
        peers = (pem("CERTIFICATE", data), credentials("bob").certificate)
        Credentials(replace(identity, peers=peers))

    def of_own(data: bytes) -> None:
        Credentials(replace(identity, certificate=pem("CERTIFICATE", data)))

    readers = {in_party_file: "parties.toml", of_peer: "certificate", of_own: "certificate"}
    yield Case("valid", lambda: [read(der) for read in readers])
    for what, data in _crafted():
        act = lambda d=data: in_party_file(d)  # noqa: E731
        yield Case(what, act, hostile=True, names="party 0")
        for read in (of_peer, of_own):
            yield Case(f"{what}, {read.__name__}", lambda d=data, r=read: r(d))
    for read, names in readers.items():
        for what, data in mutations(der, seed=random.randrange(1 << 30), count=count // 3):
            act = lambda d=data, r=read: r(d)  # noqa: E731
            yield Case(f"{what}, {read.__name__}", act, names=names)
        text = own.certificate
        for what, data in mutations(text, seed=random.randrange(1 << 30), count=count // 6):
            peers = replace(identity, peers=(data,))
            yield Case(f"{what} of the text", lambda i=peers: Credentials(i), names="certificate")
