"""A relay and the enclave's side of it in one process, so that a test can be the host."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager

from tests.transport.parties import LIMITS

from tacit.crypto import create_credentials
from tacit.enclave.edl import Kind, Link, Side
from tacit.enclave.host.relay import Relay
from tacit.enclave.trusted.host_link import HostLink
from tacit.transport import Hello, Identity, connect, listen

SESSION = b"0123456789abcdef"
ENCLAVE, OTHER = (create_credentials(name) for name in ("enclave", "other"))
LOOPBACK = "127.0.0.1"


class CheatingLink(Link):
    """The host's end of the socket; `cheat` says what to do with a message of a stream.

    It gets the number of the message and its bytes, and returns the messages to send instead.
    """

    def __init__(self, sock, side, cheat=None):
        super().__init__(sock, side)
        self._cheat, self._num_messages = cheat, 0

    def send(self, kind, number=0, body=b""):
        if kind is not Kind.BYTES or self._cheat is None:
            super().send(kind, number, body)
            return
        self._num_messages += 1
        for one in self._cheat(self._num_messages, bytes(body)):
            super().send(kind, number, one)


@contextmanager
def relayed(cheat=None, quoter=bytes):
    """Yields the host's relay, the enclave's link, and an event that is set when it would end."""
    near, far = socket.socketpair()
    ended = threading.Event()
    relay = Relay(CheatingLink(near, Side.HOST, cheat))
    host = HostLink(Link(far, Side.ENCLAVE), quoter, end=ended.set)
    try:
        yield relay, host, ended
    finally:
        relay.close()
        relay.ended.result(10)
        assert ended.wait(10)
        far.close()


def identity(rank):
    mine = (ENCLAVE, OTHER)[rank]
    return Identity(mine.certificate, mine.private_key, (ENCLAVE.certificate, OTHER.certificate))


def enclave_mesh(host, rank, addresses, limits=LIMITS):
    """The mesh of an enclave that has no network."""
    hello = Hello(session=SESSION, rank=rank, parties=2)
    certificates = identity(0 if rank == 0 else 1)
    return connect(
        hello, host.listen("main"), addresses, identity=certificates, limits=limits, dial=host.dial
    )


def outside_mesh(rank, addresses, limits=LIMITS, listener=None):
    """The mesh of an owner or a worker, over TCP."""
    listener = listen(LOOPBACK, 0) if listener is None else listener
    hello = Hello(session=SESSION, rank=rank, parties=2)
    return connect(hello, listener, addresses, identity=identity(rank), limits=limits)
