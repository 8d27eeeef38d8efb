"""Certificates that Python's TLS accepts, and only from the party they belong to."""

from __future__ import annotations

import hashlib
import ssl
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from tacit.crypto import (
    Credentials,
    create_credentials,
    public_key_fingerprint,
    read_key_file,
)
from tacit.errors import ConfigError


def context(side: int, own: Credentials, trusted: bytes, folder) -> ssl.SSLContext:
    chain = folder / f"{side}.pem"
    chain.write_bytes(own.private_key + own.certificate)
    made = ssl.SSLContext(side)
    made.check_hostname = False
    made.verify_mode = ssl.CERT_REQUIRED
    made.verify_flags |= ssl.VERIFY_X509_STRICT
    made.minimum_version = ssl.TLSVersion.TLSv1_3
    made.load_cert_chain(chain)
    made.load_verify_locations(cadata=trusted.decode())
    return made


def shake_hands(server: ssl.SSLContext, client: ssl.SSLContext) -> ssl.SSLObject:
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(3):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return ends[1]


def test_two_parties_authenticate_each_other(tmp_path):
    alice, bob = create_credentials("alice"), create_credentials("bob")
    server = context(ssl.PROTOCOL_TLS_SERVER, alice, bob.certificate, tmp_path)
    client = context(ssl.PROTOCOL_TLS_CLIENT, bob, alice.certificate, tmp_path)
    seen = shake_hands(server, client).getpeercert(binary_form=True)
    assert ssl.DER_cert_to_PEM_cert(seen).encode() == bob.certificate


def test_a_certificate_of_the_same_name_is_not_enough(tmp_path):
    alice, bob, mallory = map(create_credentials, ("alice", "bob", "bob"))
    server = context(ssl.PROTOCOL_TLS_SERVER, alice, bob.certificate, tmp_path)
    client = context(ssl.PROTOCOL_TLS_CLIENT, mallory, alice.certificate, tmp_path)
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(server, client)


def test_the_certificate_is_valid_now_and_for_as_long_as_asked():
    made = create_credentials("alice", valid_for=timedelta(days=2))
    certificate = x509.load_pem_x509_certificate(made.certificate)
    now = datetime.now(UTC)
    assert certificate.not_valid_before_utc < now - timedelta(minutes=59)
    assert timedelta(days=1, hours=23) < certificate.not_valid_after_utc - now <= timedelta(days=2)
    assert certificate.subject == certificate.issuer
    certificate.verify_directly_issued_by(certificate)


def test_the_fingerprint_is_of_the_public_key_and_of_nothing_else():
    made, other = create_credentials("alice"), create_credentials("alice")
    public = load_pem_private_key(made.private_key, None).public_key().public_bytes_raw()
    # RFC 8410: an Ed25519 SubjectPublicKeyInfo is this fixed header and the 32 bytes.
    encoded = bytes.fromhex("302a300506032b6570032100") + public
    assert public_key_fingerprint(made.certificate) == hashlib.sha256(encoded).hexdigest()
    assert public_key_fingerprint(other.certificate) != public_key_fingerprint(made.certificate)


def test_the_private_key_is_not_shown():
    made = create_credentials("alice")
    assert "PRIVATE" not in repr(made)
    assert made.private_key.decode().splitlines()[1] not in repr(made)


@pytest.mark.parametrize(
    "bad", [{"name": ""}, {"name": "x" * 65}, {"valid_for": timedelta(0)}, {"passphrase": ""}]
)
def test_bad_settings_name_the_field(bad):
    with pytest.raises(ConfigError, match=next(iter(bad))):
        create_credentials(**{"name": "alice", **bad})


def key_file(folder, content: bytes, mode: int = 0o600):
    path = folder / "alice.key"
    path.touch(mode=0o600)
    path.write_bytes(content)
    path.chmod(mode)
    return path


def test_a_key_is_read_from_its_file(tmp_path):
    made = create_credentials("alice")
    path = key_file(tmp_path, made.private_key)
    assert read_key_file(path, made.certificate) == made.private_key
    assert read_key_file(path, made.certificate, "unneeded") == made.private_key


def test_an_encrypted_key_needs_its_passphrase(tmp_path):
    made = create_credentials("alice", passphrase="correct horse")
    assert b"ENCRYPTED PRIVATE KEY" in made.private_key
    path = key_file(tmp_path, made.private_key)
    opened = read_key_file(path, made.certificate, "correct horse")
    assert load_pem_private_key(opened, None) is not None
    with pytest.raises(ConfigError, match=r"alice\.key.*needs its passphrase"):
        read_key_file(path, made.certificate)
    with pytest.raises(ConfigError, match="the passphrase does not open it") as found:
        read_key_file(path, made.certificate, "battery staple")
    assert "battery" not in str(found.value)


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660])
def test_a_key_that_others_may_read_is_refused(tmp_path, mode):
    made = create_credentials("alice")
    path = key_file(tmp_path, made.private_key, mode)
    with pytest.raises(ConfigError, match=rf"{mode:04o}; allowed is 0600; chmod 600"):
        read_key_file(path, made.certificate)


def test_a_key_of_another_certificate_is_refused(tmp_path):
    made, other = create_credentials("alice"), create_credentials("alice")
    path = key_file(tmp_path, other.private_key)
    with pytest.raises(ConfigError, match="not a pair"):
        read_key_file(path, made.certificate)


@pytest.mark.parametrize("passphrase", ["secret \ud800"])
def test_a_passphrase_that_is_no_text_is_refused_unquoted(tmp_path, passphrase):
    made = create_credentials("alice", passphrase="any")
    path = key_file(tmp_path, made.private_key)
    with pytest.raises(ConfigError, match="UTF-8") as read:
        read_key_file(path, made.certificate, passphrase)
    with pytest.raises(ConfigError, match="UTF-8") as create:
        create_credentials("alice", passphrase=passphrase)
    assert all("secret" not in str(error.value) for error in (read, create))
    assert all(error.value.__suppress_context__ for error in (read, create))


@pytest.mark.parametrize("content", [b"", b"ENCRYPTED", b"-----BEGIN PRIVATE KEY-----\nMIIB\n"])
def test_what_is_no_key_is_refused(tmp_path, content):
    made = create_credentials("alice")
    with pytest.raises(ConfigError, match="not a private key"):
        read_key_file(key_file(tmp_path, content), made.certificate, "any")
    with pytest.raises(ConfigError, match="No such file"):
        read_key_file(tmp_path / "missing", made.certificate)
    with pytest.raises(ConfigError, match="Is a directory"):
        read_key_file(tmp_path, made.certificate)
