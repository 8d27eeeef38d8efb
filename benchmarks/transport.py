"""The exchange of two processes on loopback against bare sockets, in one run.

Both processes go through the same laps in the same order; the first one holds the clock. A bare lap
sends and receives the same bytes on each side, with nothing around them: no header, no check.
"""

from __future__ import annotations

import datetime
import multiprocessing
import socket
import threading
import time
import warnings
from collections.abc import Callable
from multiprocessing.connection import Connection
from statistics import median
from typing import Any

import torch
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tacit.transport import Hello, Identity, Listener, Mesh, Spec, connect, listen

SHORT = 64
LONG = 64 << 20
SHORT_LAPS = 2000
REPETITIONS = 9
Address = tuple[str, int]
Lap = Callable[[], object]


def rows() -> list[dict[str, Any]]:
    """Latency of short exchanges and bandwidth of long ones, beside those of bare sockets."""
    seconds = _measure()
    return [
        _latency("exchange of 64 B, plain TCP", seconds, "short tcp", "short bare", 1.5),
        _latency("exchange of 64 B, TLS", seconds, "short tls", "short tcp", None),
        _bandwidth(
            "exchange of 64 MB both ways, plain TCP", seconds, "long tcp", "long bare", 0.85
        ),
        _bandwidth("exchange of 64 MB both ways, TLS", seconds, "long tls", "long tcp", 0.5),
    ]


def _latency(
    name: str, seconds: dict[str, float], lap: str, base: str, target: float | None
) -> dict[str, Any]:
    value, baseline = seconds[lap] / SHORT_LAPS * 1e6, seconds[base] / SHORT_LAPS * 1e6
    return _row(name, value, "us", base, baseline, target, "lower is better")


def _bandwidth(
    name: str, seconds: dict[str, float], lap: str, base: str, target: float | None
) -> dict[str, Any]:
    value, baseline = LONG / seconds[lap] / 1e9, LONG / seconds[base] / 1e9
    return _row(name, value, "GB/s each way", base, baseline, target, "higher is better")


def _row(
    name: str,
    value: float,
    unit: str,
    base: str,
    baseline: float,
    target: float | None,
    note: str,
) -> dict[str, Any]:
    return {
        "name": name,
        "value": value,
        "unit": unit,
        "baseline": base,
        "baseline_value": baseline,
        "ratio_of": base,
        "ratio": value / baseline,
        "target": target,
        "note": note,
    }


def _measure() -> dict[str, float]:
    """The median seconds of every lap; a second process runs the same laps."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    other = context.Process(target=_second, args=(theirs,))
    other.start()
    ends = [listen("127.0.0.1", 0) for _ in range(3)]
    keys = [_certificate() for _ in range(2)]
    ours.send(([end.address for end in ends], keys))
    seconds = _run(_laps(0, ends, ours.recv(), keys))
    other.join()
    return seconds


def _second(pipe: Connection) -> None:
    addresses, keys = pipe.recv()
    ends = [listen("127.0.0.1", 0) for _ in range(3)]
    pipe.send([end.address for end in ends])
    _run(_laps(1, ends, addresses, keys))


def _run(laps: dict[str, Lap]) -> dict[str, float]:
    seconds: dict[str, list[float]] = {name: [] for name in laps}
    for repetition in range(REPETITIONS + 1):
        for name, lap in laps.items():
            begin = time.perf_counter()
            lap()
            if repetition > 0:
                seconds[name].append(time.perf_counter() - begin)
    return {name: median(values) for name, values in seconds.items()}


def _laps(
    rank: int, ends: list[Listener], others: list[Address], keys: list[tuple[bytes, bytes]]
) -> dict[str, Lap]:
    torch.set_num_threads(1)
    bare = _bare(rank, ends[0], others[0])
    tcp = _mesh(rank, ends[1], others[1], None)
    tls = _mesh(rank, ends[2], others[2], Identity(*keys[rank], (keys[0][0], keys[1][0])))
    return {
        "short bare": lambda: _short_bare(bare),
        "short tcp": lambda: _exchange(tcp, SHORT, SHORT_LAPS),
        "short tls": lambda: _exchange(tls, SHORT, SHORT_LAPS),
        "long bare": lambda: _long_bare(bare),
        "long tcp": lambda: _exchange(tcp, LONG, 1),
        "long tls": lambda: _exchange(tls, LONG, 1),
    }


def _exchange(mesh: Mesh, size: int, count: int) -> None:
    peer, tensor = 1 - mesh.rank, torch.ones(size // 8, dtype=torch.int64)
    send, receive = {peer: [tensor]}, {peer: [Spec((size // 8,), torch.int64)]}
    for _ in range(count):
        mesh.exchange(send, receive)
    mesh.flush()


def _short_bare(sock: socket.socket) -> None:
    data = bytes(SHORT)
    for _ in range(SHORT_LAPS):
        sock.send(data)
        sock.recv(SHORT)


def _long_bare(sock: socket.socket) -> None:
    data = torch.ones(LONG // 8, dtype=torch.int64).numpy()
    view = memoryview(torch.empty(LONG, dtype=torch.uint8).numpy())
    sender = threading.Thread(target=sock.sendall, args=(data,))
    sender.start()
    while view:
        view = view[sock.recv_into(view) :]
    sender.join()


def _bare(rank: int, end: Listener, other: Address) -> socket.socket:
    end.close()
    if rank == 0:
        with socket.create_server(end.address) as server:
            sock = server.accept()[0]
    else:
        sock = _dial(other)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def _dial(address: Address) -> socket.socket:
    until = time.monotonic() + 10
    while True:
        try:
            return socket.create_connection(address)
        except ConnectionRefusedError:
            if time.monotonic() > until:
                raise
            time.sleep(0.01)


def _mesh(rank: int, end: Listener, other: Address, identity: Identity | None) -> Mesh:
    hello = Hello(
        session=bytes(16), rank=rank, parties=2, ring=64, protocol="bench", digest=bytes(32)
    )
    addresses = [end.address, other] if rank == 0 else [other, end.address]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return connect(
            hello, end, addresses, identity=identity, insecure_plain_tcp=identity is None
        )


def _certificate() -> tuple[bytes, bytes]:
    key = Ed25519PrivateKey.generate()
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "benchmark")])
    now = datetime.datetime.now(datetime.UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    certificate = (
        builder.not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .sign(key, None)
    )
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return certificate.public_bytes(Encoding.PEM), pem


if __name__ == "__main__":
    for row in rows():
        print(
            f"{row['name']:42} {row['value']:8.2f} {row['unit']:14} "
            f"{row['ratio']:5.2f} of {row['ratio_of']} (target {row['target']})"
        )
