"""Connections that fail before they are encrypted leave nothing behind; long ones are renewed."""

import gc
import socket
import ssl
import struct
import threading
import time
from contextlib import closing
from itertools import cycle

import pytest
import torch
from tests.tiers import spread
from tests.transport.parties import run

from tacit.crypto import create_credentials
from tacit.errors import FrameRejected, TransportError
from tacit.transport import Limits, Mesh
from tacit.transport.wire import socket_channel, tls
from tacit.transport.wire.frames import HEADER, Spec, layout
from tacit.transport.wire.openssl_session import compiled
from tacit.transport.wire.pinned_identity import Identity
from tacit.transport.wire.tls import Credentials, TlsStream


@pytest.fixture(params=spread(["both", "openssl", "ssl"], quick=1), autouse=True)
def _code(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parties that run compiled code over OpenSSL, Python's ssl, or one in turn with the other."""
    compiled()  # raises if it is not built
    found = tls.load_openssl()  # None if the interpreter contains OpenSSL
    codes = cycle({"openssl": [found], "ssl": [None], "both": [found, None]}[request.param])
    monkeypatch.setattr(tls, "load_openssl", lambda: next(codes))


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
    with pytest.raises(TransportError), closing(credentials.stream(here, server=False)) as stream:
        stream.shake(5.0)
    gc.collect()


def test_an_end_without_a_goodbye_is_told_in_our_words():
    """As when a process is killed: OpenSSL has a name of its own for it."""
    stream = TlsStream.__new__(TlsStream)
    stream.peer = 2
    error = stream.lost(ssl.SSLEOFError(ssl.SSL_ERROR_EOF, "EOF occurred in violation of protocol"))
    assert str(error) == "the connection with party 2 is lost: closed by the other side"


# Renewal ------------------------------------------------------------------------------------------


def exchange(mesh: Mesh, sizes: list[int]) -> int:
    """Sends a tensor of each size to the next party; returns how often the way here is renewed."""
    after, before = (mesh.rank + 1) % mesh.parties, (mesh.rank - 1) % mesh.parties
    for size in sizes:
        sent = torch.arange(size) * 1_000_003 + mesh.rank
        got = mesh.exchange({after: [sent]}, {before: [Spec((size,), torch.int64)]})
        assert got[before][0].equal(torch.arange(size) * 1_000_003 + before)
    return mesh._channels[before].incoming.renewals


@pytest.mark.parametrize("limit", [1, 20_000, 100_003])
def test_connections_are_renewed_and_nothing_is_lost(limit, monkeypatch):
    """With a handshake for each byte, a message takes seconds on a busy machine."""
    monkeypatch.setattr(tls, "RENEW_BYTES", limit)
    sizes = [1, 2] if limit == 1 else [1, 100, 511, 512, 513, 20_000, 3, 200_000, 7]
    patient = Limits(deadline=120.0)
    found = run("tls", lambda mesh: exchange(mesh, sizes), parties=3, limits=patient).values()
    total = 8 * sum(sizes)
    for renewals in found:
        assert renewals >= total // limit


def test_a_renewal_gives_a_new_secret_for_the_same_key(monkeypatch):
    monkeypatch.setattr(tls, "RENEW_BYTES", 10_000)

    def main(mesh):
        seen = []
        for _ in range(4):
            exchange(mesh, [500, 500, 500])
            incoming = mesh._channels[1 - mesh.rank].incoming
            seen.append((incoming._tls, incoming.pin, incoming._tls.version()))
        return seen

    for seen in run("tls", main, limits=Limits(deadline=30.0)).values():
        assert len({id(one) for one, _, _ in seen}) > 1
        assert len({pin for _, pin, _ in seen}) == 1
        assert {version for _, _, version in seen} == {"TLSv1.3"}


def test_heartbeats_and_last_words_pass_renewals(monkeypatch):
    """While tensors flow one way and renewals happen, the receiver's side is heard of."""
    monkeypatch.setattr(tls, "RENEW_BYTES", 50_000)

    def main(mesh):
        if mesh.rank == 0:
            for _ in range(300):
                mesh.exchange({1: [torch.zeros(1000, dtype=torch.int64)]}, {})
        else:
            for _ in range(300):
                mesh.exchange({}, {0: [Spec((1000,), torch.int64)]})
            raise KeyError("after the last one")
        mesh.exchange({}, {1: [Spec((1,), torch.int64)]})

    limits = Limits(deadline=30.0)
    outcome = run("tls", main, limits=limits)
    assert isinstance(outcome[1], KeyError)
    assert "KeyError" in str(outcome[0])


def test_many_renewals_in_both_directions_under_heartbeats(monkeypatch):
    """Long and short messages cross while a heartbeat goes out every 10 ms."""
    monkeypatch.setattr(tls, "RENEW_BYTES", 3_000)
    monkeypatch.setattr(socket_channel, "BEATS_PER_DEADLINE", 3_000)
    sizes = [1, 30_000, 2, 300, 9_000, 1]
    found = run("tls", lambda mesh: exchange(mesh, sizes), limits=Limits(deadline=30.0)).values()
    assert all(renewals >= 8 * sum(sizes) // 3_000 for renewals in found)


def test_a_last_word_passes_where_a_renewal_is_due(monkeypatch):
    """Exactly so many bytes have passed, and the sender has nothing to send: it computes."""
    one = layout(((torch.Size([1]), torch.int64),))
    monkeypatch.setattr(tls, "RENEW_BYTES", HEADER.size + len(one.table) + one.size)
    said = threading.Event()

    def main(mesh):
        spec = [Spec((1,), torch.int64)]
        if mesh.rank == 0:
            mesh.exchange({1: [torch.ones(1, dtype=torch.int64)]}, {})
            assert said.wait(60)
            mesh.exchange({}, {1: spec})
        assert int(mesh.exchange({}, {0: spec})[0][0]) == 1
        assert mesh._channels[0].incoming._left == 0
        mesh.abort(KeyError("after the last one"))
        said.set()
        raise KeyError("after the last one")

    outcome = run("tls", main, limits=Limits(deadline=30.0))
    assert isinstance(outcome[1], KeyError)
    assert "KeyError" in str(outcome[0])


def test_a_byte_that_is_no_renewal_is_refused_where_one_is_due(monkeypatch):
    monkeypatch.setattr(tls, "RENEW_BYTES", 1_000)

    def main(mesh):
        if mesh.rank == 1:
            mesh.exchange({}, {0: [Spec((1000,), torch.int64)]})
        out = mesh._channels[1].outgoing

        def begin(reading):
            if not (reading or out._step):
                out._tls.write(memoryview(b"S"))
                out._step = out._drain

        out._begin_renewal = begin
        mesh.exchange({1: [torch.zeros(1000, dtype=torch.int64)]}, {})
        mesh.flush()

    outcome = run("tls", main, limits=Limits(deadline=30.0))
    assert "beyond a renewal" in str(outcome[1])


def test_what_comes_against_the_flow_in_a_renewal_is_bounded(monkeypatch):
    """A receiver that never ends its side of TLS, and sends without end, is refused."""
    monkeypatch.setattr(tls, "RENEW_BYTES", 8_000)
    monkeypatch.setattr(tls, "_MAX_EARLY", 100)

    def main(mesh):
        if mesh.rank == 0:
            mesh.exchange({1: [torch.zeros(1000, dtype=torch.int64)]}, {})
            mesh.exchange({1: [torch.zeros(1000, dtype=torch.int64)]}, {})
            mesh.flush()
        else:
            incoming = mesh._channels[0].incoming
            with incoming._lock:
                assert incoming._tls.write(memoryview(bytes(5000))) == 5000
            mesh.exchange({}, {0: [Spec((1000,), torch.int64)]})

    outcome = run("tls", main, limits=Limits(deadline=30.0))
    assert isinstance(outcome[0], FrameRejected)
    assert "against the flow in a renewal" in str(outcome[0])


def test_the_bound_is_below_that_of_the_standard():
    """RFC 8446, 5.5: 2^24.5 records of 2^14 bytes under one key of AES-GCM."""
    assert 2**24.5 * 2**14 / tls.RENEW_BYTES > 5
