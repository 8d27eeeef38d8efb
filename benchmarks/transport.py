"""The exchange of two processes on loopback against bare sockets, in one run.

Both processes go through the same laps in the same order; the first one holds the clock. A bare lap
sends and receives the same bytes on each side, with nothing around them: no header, no check.
"""

from __future__ import annotations

import multiprocessing
import os
import socket
import ssl
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from multiprocessing.connection import Connection
from unittest import mock

import torch
from benchmarks.measure import Row, interleaved
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tacit.crypto import create_credentials
from tacit.transport import Hello, Identity, Listener, Mesh, Spec, connect, listen
from tacit.transport.wire import tls as tls_streams

SHORT = 64
LONG = 64 << 20
SHORT_LAPS = 2000
START_SECONDS = 60
STREAMS = min(8, os.cpu_count() or 1)  # of one process at the same time
Address = tuple[str, int]
Lap = Callable[[], object]
Pair = tuple[socket.socket, socket.socket]  # outgoing, incoming

_PORTS = 4 + 2 * STREAMS

LATENCY = (
    "limit: two system calls, about 20 us with the wake-up of the peer; the rest is Python: "
    "checking and packing the message and making its tensor (torch.empty alone 4 to 9 us)"
)


def rows() -> list[Row]:
    """Latency of short exchanges and bandwidth of long ones, beside those of bare sockets."""
    laps = _measure()
    short = {name: laps[name] / SHORT_LAPS * 1e6 for name in laps if name.startswith("short")}
    streams = {name: STREAMS if "many" in name else 1 for name in laps}
    long = {n: streams[n] * LONG / laps[n] / 1e9 for n in laps if n.startswith("long")}
    latency = "exchange of 64 B"
    return [
        _row(f"{latency}, plain TCP", "us", short, "short tcp", "short ping-pong", 1.5, LATENCY),
        _row(f"{latency}, TLS", "us", short, "short tls", "short tcp"),
        _row("64 MB both ways, plain TCP", "GB/s", long, "long tcp", "long bare", 0.85),
        _row("64 MB both ways, TLS", "GB/s", long, "long tls", "long tcp", 0.5, _bound(long)),
        _row("64 MB both ways, TLS", "GB/s", long, "long tls", "long bare ssl"),
        _row("64 MB one way, TLS", "GB/s", long, "long one way", "long one way, ssl"),
        _row(f"64 MB one way, TLS, {STREAMS} at once", "GB/s", long, "long many", "long many, ssl"),
    ]


def _row(
    name: str,
    unit: str,
    values: dict[str, float],
    lap: str,
    base: str,
    target: float | None = None,
    note: str = "",
) -> Row:
    return Row(
        name=name,
        value=values[lap],
        unit=unit,
        baseline=base,
        baseline_value=values[base],
        target=target,
        note=note,
        lower_is_better=unit == "us",
    )


def _bound(long: dict[str, float]) -> str:
    """Each way is encrypted once and decrypted once, and there are two ways for all cores."""
    gcm = aes_gcm()
    bound = 1 / (1 + 4 * long["long tcp"] / (gcm * (os.cpu_count() or 1)))
    return (
        f"limit: {bound:.2f}, for AES-256-GCM runs at {gcm:.2f} GB/s a core and both parties "
        f"share {os.cpu_count()} cores, which plain TCP keeps busy already"
    )


def aes_gcm() -> float:
    """GB/s at which one core encrypts records of TLS."""
    cipher, record, count = AESGCM(bytes(32)), bytes(1 << 14), 500
    begin = time.perf_counter()
    for number in range(count):
        cipher.encrypt(number.to_bytes(12, "little"), record, None)
    return len(record) * count / (time.perf_counter() - begin) / 1e9


def _measure() -> dict[str, float]:
    """The median seconds of every lap; a second process runs the same laps."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    other = context.Process(target=_second, args=(theirs,), daemon=True)
    other.start()
    theirs.close()
    ends = [listen("127.0.0.1", 0) for _ in range(_PORTS)]
    keys = [_identity(rank) for rank in range(2)]
    ours.send(([end.address for end in ends], keys))
    if not ours.poll(START_SECONDS):
        raise RuntimeError("the second process of the benchmark did not start")
    seconds = interleaved(_laps(0, ends, ours.recv(), keys))
    other.join()
    return seconds


def _second(pipe: Connection) -> None:
    addresses, keys = pipe.recv()
    ends = [listen("127.0.0.1", 0) for _ in range(_PORTS)]
    pipe.send([end.address for end in ends])
    interleaved(_laps(1, ends, addresses, keys))


def _laps(
    rank: int, ends: list[Listener], others: list[Address], keys: list[tuple[bytes, bytes]]
) -> dict[str, Lap]:
    torch.set_num_threads(1)
    bare = _bare_pair(rank, ends[0], others[0])
    secure = _secure(_bare_pair(rank, ends[3], others[3]), rank, keys)
    tcp = _mesh(rank, ends[1], others[1], None)
    tls = _mesh(rank, ends[2], others[2], Identity(*keys[rank], (keys[0][0], keys[1][0])))
    many, python = _many(rank, ends[4:], others[4:], keys)
    return {
        "short ping-pong": lambda: _ping_pong(bare, rank),
        "short tcp": lambda: _exchange(tcp, SHORT, SHORT_LAPS),
        "short tls": lambda: _exchange(tls, SHORT, SHORT_LAPS),
        "long bare": lambda: _long_bare(bare),
        "long tcp": lambda: _exchange(tcp, LONG, 1),
        "long tls": lambda: _exchange(tls, LONG, 1),
        "long bare ssl": lambda: _long_bare(secure),
        "long one way": lambda: _one_way(many[0]),
        "long one way, ssl": lambda: _one_way(python[0]),
        "long many": lambda: _at_once(many),
        "long many, ssl": lambda: _at_once(python),
    }


def _many(
    rank: int, ends: list[Listener], others: list[Address], keys: list[tuple[bytes, bytes]]
) -> tuple[list[Mesh], list[Mesh]]:
    """Meshes over compiled TLS, and as many over Python's ssl."""
    identity = Identity(*keys[rank], (keys[0][0], keys[1][0]))
    pairs = list(zip(ends, others, strict=True))
    compiled = [_mesh(rank, end, other, identity) for end, other in pairs[:STREAMS]]
    with mock.patch.object(tls_streams, "load_openssl", return_value=None):
        return compiled, [_mesh(rank, end, other, identity) for end, other in pairs[STREAMS:]]


def _at_once(meshes: list[Mesh]) -> None:
    threads = [threading.Thread(target=_one_way, args=(mesh,)) for mesh in meshes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _one_way(mesh: Mesh) -> None:
    """The first process sends; a word comes back when all of it has arrived."""
    mesh.move_to_this_thread()
    if mesh.rank == 0:
        mesh.exchange({1: [torch.ones(LONG // 8, dtype=torch.int64)]}, {})
        mesh.exchange({}, {1: [Spec((1,), torch.int64)]})
    else:
        mesh.exchange({}, {0: [Spec((LONG // 8,), torch.int64)]})
        mesh.exchange({0: [torch.zeros(1, dtype=torch.int64)]}, {})


def _exchange(mesh: Mesh, size: int, count: int) -> None:
    peer, tensor = 1 - mesh.rank, torch.ones(size // 8, dtype=torch.int64)
    send, receive = {peer: [tensor]}, {peer: [Spec((size // 8,), torch.int64)]}
    for _ in range(count):
        mesh.exchange(send, receive)
    mesh.flush()


def _ping_pong(pair: Pair, rank: int) -> None:
    """There and back again: the second process answers what it has received."""
    outgoing, incoming = pair
    data = bytes(SHORT)
    if rank == 1:
        incoming.recv(SHORT)
    for _ in range(SHORT_LAPS - rank):
        outgoing.send(data)
        incoming.recv(SHORT)
    if rank == 1:
        outgoing.send(data)


def _long_bare(pair: Pair) -> None:
    outgoing, incoming = pair
    data = torch.ones(LONG // 8, dtype=torch.int64).numpy()
    view = memoryview(torch.empty(LONG, dtype=torch.uint8).numpy())
    sender = threading.Thread(target=outgoing.sendall, args=(data,))
    sender.start()
    while view:
        view = view[incoming.recv_into(view) :]
    sender.join()


def _bare_pair(rank: int, end: Listener, other: Address) -> Pair:
    """Two connections, one for each direction, as a mesh has them."""
    if rank == 0:
        first, second = _accept(end), _accept(end)
    else:
        first, second = socket.create_connection(other), socket.create_connection(other)
    end.close()
    for sock in (first, second):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return (first, second) if rank == 0 else (second, first)


def _accept(end: Listener) -> socket.socket:
    arrival = end.accept(START_SECONDS)
    if arrival is None:
        raise RuntimeError("the second process of the benchmark did not connect")
    return arrival[0]


def _secure(pair: Pair, rank: int, keys: list[tuple[bytes, bytes]]) -> Pair:
    """The same two connections under Python's own TLS sockets."""
    role = ssl.PROTOCOL_TLS_SERVER if rank == 0 else ssl.PROTOCOL_TLS_CLIENT
    context = ssl.SSLContext(role)
    context.check_hostname = False
    context.load_verify_locations(cadata=keys[1 - rank][0].decode())
    context.verify_mode = ssl.CERT_REQUIRED
    with tempfile.NamedTemporaryFile() as file:
        file.write(b"\n".join(keys[rank]))
        file.flush()
        context.load_cert_chain(file.name)
    # The handshakes go in the same order on both sides.
    ordered = pair if rank == 0 else pair[::-1]
    first, second = (context.wrap_socket(sock, server_side=rank == 0) for sock in ordered)
    return (first, second) if rank == 0 else (second, first)


def _mesh(rank: int, end: Listener, other: Address, identity: Identity | None) -> Mesh:
    hello = Hello(session=bytes(16), rank=rank, parties=2)
    addresses = [end.address, other] if rank == 0 else [other, end.address]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return connect(
            hello, end, addresses, identity=identity, insecure_plain_tcp=identity is None
        )


def _identity(rank: int) -> tuple[bytes, bytes]:
    credentials = create_credentials(f"benchmark {rank}")
    return credentials.certificate, credentials.private_key
