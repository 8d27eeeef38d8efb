"""Connections that fail before they are encrypted leave nothing behind."""

import gc
import socket
import ssl
import struct
import time

import pytest

from tacit.crypto import create_credentials
from tacit.errors import TransportError
from tacit.transport.wire.tls import Credentials, Identity, TlsStream


def reset_at_once() -> socket.socket:
    """A connection whose other end has just gone away without a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        here = socket.create_connection(server.getsockname())
        there, _ = server.accept()
    there.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    there.close()
    time.sleep(0.05)
    return here


@pytest.mark.filterwarnings("error::ResourceWarning")
def test_a_peer_that_goes_away_before_the_handshake():
    made = create_credentials("party 0")
    identity = Identity(made.certificate, made.private_key, (made.certificate,))
    credentials, here = Credentials(identity), reset_at_once()
    with pytest.raises(TransportError):
        credentials.stream(here, server=False).shake(5.0)
    gc.collect()


def test_an_end_without_a_goodbye_is_told_in_our_words():
    """As when a process is killed: OpenSSL has a name of its own for it."""
    stream = TlsStream.__new__(TlsStream)
    stream.peer = 2
    error = stream.lost(ssl.SSLEOFError(ssl.SSL_ERROR_EOF, "EOF occurred in violation of protocol"))
    assert str(error) == "the connection with party 2 is lost: closed by the other side"
