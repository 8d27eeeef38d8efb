"""Certificates that Python's TLS accepts, and only from the party they belong to."""

from __future__ import annotations

import hashlib
import hmac
import ssl
from base64 import b64decode, b64encode
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from tacit.crypto import (
    SCRYPT,
    Credentials,
    create_credentials,
    is_sealed,
    public_key_fingerprint,
    read_key_file,
)
from tacit.crypto.key_file import seal
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
    assert is_sealed(made.private_key)
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


@pytest.fixture
def cheap(monkeypatch):
    """Passphrases that are quick to try."""
    monkeypatch.setitem(SCRYPT, "n", 2)


def raw(sealed: bytes) -> bytearray:
    return bytearray(b64decode(b"".join(sealed.splitlines()[1:-1])))


def armoured(data: bytes) -> bytes:
    begin, *_, end = create_credentials("x", passphrase="any").private_key.splitlines()
    return b"\n".join([begin, b64encode(data), end, b""])


def test_a_passphrase_goes_through_scrypt_with_the_cost_in_the_file(tmp_path):
    """2^17 rounds of 8 blocks; whoever has the file needs 128 MiB for each guess."""
    made = create_credentials("alice", passphrase="correct horse")
    data = raw(made.private_key)
    assert tuple(data[:4]) == (1, 17, 8, 1)
    secret = hashlib.scrypt(
        b"correct horse", salt=data[4:36], n=1 << 17, r=8, p=1, maxmem=1 << 28, dklen=32
    )
    extracted = hmac.digest(bytes(data[4:36]), secret, "sha256")  # HKDF, by its RFC 5869
    first = hmac.digest(extracted, b"tacit private key file\x01", "sha256")
    second = hmac.digest(extracted, first + b"tacit private key file\x02", "sha256")
    assert data[36:68] == second
    key = AESGCM(first).decrypt(bytes(12), bytes(data[68:]), bytes(data[:68]))
    opened = read_key_file(key_file(tmp_path, made.private_key), made.certificate, "correct horse")
    assert load_pem_private_key(opened, None).private_bytes_raw() == key


def test_no_changed_byte_of_a_sealed_key_is_accepted(tmp_path, cheap):
    made = create_credentials("alice", passphrase="any")
    data = raw(made.private_key)
    for place in range(len(data)):
        changed = bytearray(data)
        changed[place] ^= 1 + place % 255
        with pytest.raises(ConfigError, match=r"alice\.key"):
            read_key_file(key_file(tmp_path, armoured(changed)), made.certificate, "any")
    for size in (0, 1, len(data) - 1, len(data) + 1, 2 * len(data)):
        cut = armoured(bytes(data * 2)[:size])
        with pytest.raises(ConfigError, match=r"alice\.key.*changed"):
            read_key_file(key_file(tmp_path, cut), made.certificate, "any")


@pytest.mark.parametrize("cost", [(20, 8, 1), (17, 255, 1), (255, 8, 1), (17, 8, 255), (0, 8, 1)])
def test_a_sealed_key_cannot_ask_for_any_effort(tmp_path, cheap, cost):
    made = create_credentials("alice", passphrase="any")
    data = raw(made.private_key)
    data[1:4] = bytes(cost)
    with pytest.raises(ConfigError, match="changed"):
        read_key_file(key_file(tmp_path, armoured(data)), made.certificate, "any")


def test_a_key_that_is_sealed_twice_has_another_salt_and_commitment(cheap):
    key = Ed25519PrivateKey.generate()
    one, other = (raw(seal(key, "any")) for _ in range(2))
    assert one[:4] == other[:4]
    for part in (slice(4, 36), slice(36, 68), slice(68, None)):
        assert one[part] != other[part]


def test_a_key_that_is_encrypted_in_another_way_is_refused(tmp_path):
    key = Ed25519PrivateKey.generate()
    how = Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"any")
    made = create_credentials("alice")
    with pytest.raises(ConfigError, match=r"alice\.key.*openssl pkey") as found:
        read_key_file(key_file(tmp_path, key.private_bytes(*how)), made.certificate, "any")
    assert "any" not in str(found.value).replace("alice", "")


@pytest.mark.parametrize("content", [b"", b"ENCRYPTED", b"-----BEGIN PRIVATE KEY-----\nMIIB\n"])
def test_what_is_no_key_is_refused(tmp_path, content):
    made = create_credentials("alice")
    with pytest.raises(ConfigError, match="not a private key"):
        read_key_file(key_file(tmp_path, content), made.certificate, "any")
    with pytest.raises(ConfigError, match="No such file"):
        read_key_file(tmp_path / "missing", made.certificate)
    with pytest.raises(ConfigError, match="Is a directory"):
        read_key_file(tmp_path, made.certificate)
