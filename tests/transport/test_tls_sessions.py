"""Compiled TLS sessions and those of Python's `ssl`: the same handshakes, refusals and bytes."""

from __future__ import annotations

import _ssl
import datetime
import itertools
import random
import socket
import ssl
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from functools import cache

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from tests.transport import parties
from tests.transport.parties import certificate, delegated, identity

from tacit.errors import ConfigError, PeerClosed, TransportError
from tacit.testing import until
from tacit.testing.channels import in_threads
from tacit.transport import Identity
from tacit.transport.wire import openssl_session
from tacit.transport.wire.openssl_session import OpenSslContext, compiled, load_openssl
from tacit.transport.wire.ssl_session import SslContext
from tacit.transport.wire.tls import TlsStream

compiled()  # raises if it is not built
REACHABLE = load_openssl() is not None
CODES = {"openssl": OpenSslContext, "ssl": SslContext} if REACHABLE else {"ssl": SslContext}
PAIRS = list(itertools.product(CODES, CODES))  # of the client, of the server
RECORD = 1 << 14
SECONDS = 20.0
needs_openssl = pytest.mark.skipif(not REACHABLE, reason="the interpreter contains OpenSSL")
Codes = tuple[str, str]
Pair = tuple[TlsStream, TlsStream]


def connected() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return socket.create_connection(listener.getsockname()), listener.accept()[0]


def stream(code: str, own: Identity, sock: socket.socket, *, server: bool) -> TlsStream:
    context = CODES[code](own, server=server)
    return TlsStream(context, *context.begin(sock))


def streams(codes: Codes, client: Identity, server: Identity) -> Pair:
    """Two ends of a connection, before the handshake."""
    first, second = connected()
    return (
        stream(codes[0], client, first, server=False),
        stream(codes[1], server, second, server=True),
    )


def shake_hands(client: TlsStream, server: TlsStream) -> None:
    done = in_threads([lambda: client.shake(SECONDS), lambda: server.shake(SECONDS)])
    assert done == [None, None]
    client.peer, server.peer = 0, 1


@pytest.fixture(params=PAIRS, ids="-".join)
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    """Two ends of a connection, after the handshake."""
    client, server = streams(request.param, identity(1), identity(0))
    with closing(client), closing(server):
        shake_hands(client, server)
        yield client, server


def send(end: TlsStream, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[end.write((view,), patient=True) :]


def receive(end: TlsStream, size: int) -> bytes:
    data = bytearray(size)
    view, late = memoryview(data), time.monotonic() + SECONDS
    while view:
        view = view[end.read(view, patient=True) :]
        assert time.monotonic() < late
    return bytes(data)


# Bytes --------------------------------------------------------------------------------------------


def test_bytes_of_any_size_pass_both_ways(pair: Pair) -> None:
    sizes = [1, 100, RECORD - 1, RECORD, RECORD + 1, 3 * RECORD, 1_000_003, 5 << 20]
    texts = [random.Random(size).randbytes(size) for size in sizes]
    for sender, receiver in (pair, pair[::-1]):

        def send_all(end: TlsStream = sender) -> None:
            for text in texts:
                send(end, text)

        def receive_all(end: TlsStream = receiver) -> list[bytes]:
            return [receive(end, size) for size in sizes]

        assert in_threads([send_all, receive_all]) == [None, texts]


def test_both_sides_know_whom_they_talk_to_over_tls_1_3(pair: Pair) -> None:
    pins = identity(0).pins()
    assert [end.pin for end in pair] == [pins[0], pins[1]]
    assert [end._tls.version() for end in pair] == ["TLSv1.3", "TLSv1.3"]
    assert all(end.expires is not None for end in pair)


@needs_openssl
def test_one_call_of_compiled_code_passes_many_records() -> None:
    client, server = streams(("openssl", "openssl"), identity(1), identity(0))
    with closing(client), closing(server):
        shake_hands(client, server)
        assert client._tls.write(memoryview(bytes(4 * RECORD))) == 4 * RECORD
        until(lambda: len(server._sock.recv(1 << 20, socket.MSG_PEEK)) > 4 * RECORD)
        assert server._tls.read(memoryview(bytearray(4 * RECORD))) == 4 * RECORD


# Ends ---------------------------------------------------------------------------------------------


def test_an_end_without_a_goodbye_comes_after_what_was_sent(pair: Pair) -> None:
    client, server = pair
    send(client, bytes(2 * RECORD))
    client.cut()
    receive(server, 2 * RECORD - 1)
    [error] = in_threads([lambda: receive(server, 2)])
    assert isinstance(error, PeerClosed)
    assert "closed by the other side" in str(error)


def test_a_reset_is_told_by_reads_and_by_writes(pair: Pair) -> None:
    client, server = pair
    client._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()
    with pytest.raises(PeerClosed):
        receive(server, 1)
    with pytest.raises(PeerClosed):
        send(server, bytes(RECORD))


def test_a_side_that_has_closed_refuses_calls(pair: Pair) -> None:
    client, _ = pair
    client.close()
    with pytest.raises(PeerClosed, match="this side has closed it"):
        client.write((b"1",))


def test_a_changed_record_ends_the_connection() -> None:
    """What does not authenticate is never given out, and the other side is told."""
    for code in CODES:
        client, server = streams((code, code), identity(1), identity(0))
        with closing(client), closing(server):
            shake_hands(client, server)
            client._sock.setblocking(True)
            socket.socket.send(client._sock, b"\x17\x03\x03\x00\x20" + bytes(32))
            with pytest.raises(TransportError):
                receive(server, 1)


# Refusals -----------------------------------------------------------------------------------------

MINUTE = datetime.timedelta(minutes=1)


def shown(rank: int, pem: tuple[bytes, bytes], peers: tuple[bytes, ...] = ()) -> Identity:
    """The identity of a party with another certificate than the one that others know."""
    return replace(
        identity(rank), certificate=pem[0], private_key=pem[1], peers=peers or identity(rank).peers
    )


def expired(client: bool) -> tuple[Identity, Identity]:
    old = certificate("old", datetime.datetime.now(datetime.UTC) - MINUTE)
    known = (
        (old[0], certificate("party 1")[0]) if not client else (certificate("party 0")[0], old[0])
    )
    ranks = [replace(identity(rank), peers=known) for rank in (1, 0)]
    ranks[not client] = shown(int(client), old, known)
    return ranks[0], ranks[1]


CASES: dict[str, Callable[[], tuple[Identity, Identity]]] = {
    "known": lambda: (identity(1), identity(0)),
    "unknown client": lambda: (identity(1, name="stranger"), identity(0)),
    "unknown server": lambda: (identity(1), identity(0, name="stranger")),
    "expired client": lambda: expired(True),
    "expired server": lambda: expired(False),
    "client signed by a known key": lambda: (shown(1, delegated("party 1")), identity(0)),
}


def outcome(codes: Codes, case: str) -> list[str]:
    """What each side says of a handshake and of the first byte from the server."""
    client, server = streams(codes, *CASES[case]())

    def dials() -> str:
        client.shake(SECONDS)
        return receive(client, 1).decode()

    def answers() -> None:
        server.shake(SECONDS)
        send(server, b"!")

    with closing(client), closing(server):
        return [f"{type(one).__name__}: {one}" for one in in_threads([dials, answers])]


@cache
def expected(case: str) -> list[str]:
    return outcome(("ssl", "ssl"), case)


@pytest.mark.parametrize("case", CASES)
def test_both_refuse_the_same_in_the_same_words(case: str) -> None:
    assert ("CertificateRejected" in str(expected(case))) is (case not in (*CASES,)[::5])
    for codes in PAIRS[:-1]:
        assert outcome(codes, case) == expected(case), codes


@pytest.mark.parametrize("code", CODES)
def test_a_client_without_a_certificate_or_of_tls_1_2_is_refused(code: str) -> None:
    for newest in (ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_2):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.maximum_version = newest
        first, second = connected()
        server = stream(code, identity(0), second, server=True)

        def dial(context: ssl.SSLContext = context, sock: socket.socket = first) -> None:
            sock.settimeout(SECONDS)
            with context.wrap_socket(sock) as tls:
                tls.recv(1)

        with closing(server):
            refused, error = in_threads([dial, lambda end=server: end.shake(SECONDS)])
        assert isinstance(error, TransportError)
        assert isinstance(refused, OSError)


@pytest.mark.parametrize("code", CODES)
def test_a_silent_peer_is_given_up_in_time(code: str) -> None:
    first, second = connected()
    client = stream(code, identity(1), first, server=False)
    with closing(second), closing(client), pytest.raises(TransportError, match="no answer"):
        client.shake(0.05)


def encrypted_key() -> Identity:
    key = load_pem_private_key(identity(0).private_key, None)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"x"))
    return replace(identity(0), private_key=pem)


def short_key() -> Identity:
    """RSA of 1024 bits: below the security level that Python's `ssl` asks for."""
    key = rsa.generate_private_key(65537, 1024)
    return shown(0, (parties._signed("short", key, "short", key), parties._pem(key)))


UNUSABLE: dict[str, Callable[[], Identity]] = {
    "an encrypted key": encrypted_key,
    "another key": lambda: replace(identity(0), private_key=identity(1).private_key),
    "no key": lambda: replace(identity(0), private_key=b""),
    "no certificate": lambda: replace(identity(0), certificate=b"nothing"),
    "a short key": short_key,
}


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("what", UNUSABLE)
def test_an_identity_that_cannot_be_used_is_refused(what: str, code: str) -> None:
    with pytest.raises(ConfigError, match="PEM, unencrypted, and a pair"):
        CODES[code](UNUSABLE[what](), server=True)


# The library --------------------------------------------------------------------------------------


@needs_openssl
def test_another_library_than_that_of_the_ssl_module_is_not_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert load_openssl() is not None
    native, number = compiled(), ssl.OPENSSL_VERSION_NUMBER
    for path, version in ((_ssl.__file__, number + 1), ("/nowhere", number), (__file__, number)):
        with pytest.raises(RuntimeError):
            native.OpenSsl(path, version)
    find = load_openssl.__wrapped__
    for target, name, value in (
        (_ssl, "__file__", "/nowhere"),
        (ssl, "OPENSSL_VERSION", "LibreSSL 4.1.0"),
        (ssl, "OPENSSL_VERSION_NUMBER", number ^ 0x10000000),
        (openssl_session, "__package__", "tacit"),  # where no compiled module is
    ):
        with monkeypatch.context() as patch:
            patch.setattr(target, name, value)
            assert find() is None
    assert find() is not None
