"""The exchange of two processes on loopback against bare sockets, in one run.

Both processes go through the same laps in the same order; the first one holds the clock. The bare
laps move the same bytes with nothing around them: no tensor, no header, no check. In "send and
receive" both sides send first, in "ping-pong" the second answers.
"""

from __future__ import annotations

import datetime
import multiprocessing
import os
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
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
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
    laps = _measure()
    short = {name: laps[name] / SHORT_LAPS * 1e6 for name in laps if name.startswith("short")}
    long = {name: LONG / laps[name] / 1e9 for name in laps if name.startswith("long")}
    gcm = _aes_gcm()
    # Each way is encrypted once and decrypted once, and there are two ways for all cores.
    bound = 1 / (1 + 4 * long["long tcp"] / (gcm * (os.cpu_count() or 1)))
    return [
        _row("exchange of 64 B, plain TCP", "us", short, "short tcp", "short ping-pong", 1.5),
        _row(
            "exchange of 64 B, plain TCP", "us", short, "short tcp", "short send and receive", 1.5
        ),
        _row("exchange of 64 B, TLS", "us", short, "short tls", "short tcp", None),
        _row("64 MB both ways, plain TCP", "GB/s", long, "long tcp", "long send and receive", 0.85),
        _row("64 MB both ways, TLS", "GB/s", long, "long tls", "long tcp", 0.5)
        | {"note": f"at most {bound:.2f} with AES-256-GCM at {gcm:.2f} GB/s a core"},
    ]


def _row(
    name: str,
    unit: str,
    values: dict[str, float],
    lap: str,
    base: str,
    target: float | None,
) -> dict[str, Any]:
    return {
        "name": name,
        "value": values[lap],
        "unit": unit,
        "baseline": base,
        "baseline_value": values[base],
        "ratio_of": base,
        "ratio": values[lap] / values[base],
        "target": target,
        "note": "lower is better" if unit == "us" else "each way; higher is better",
    }


def _aes_gcm() -> float:
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
        "short ping-pong": lambda: _ping_pong(bare, rank),
        "short send and receive": lambda: _short_bare(bare),
        "short tcp": lambda: _exchange(tcp, SHORT, SHORT_LAPS),
        "short tls": lambda: _exchange(tls, SHORT, SHORT_LAPS),
        "long send and receive": lambda: _long_bare(bare),
        "long tcp": lambda: _exchange(tcp, LONG, 1),
        "long tls": lambda: _exchange(tls, LONG, 1),
    }


def _exchange(mesh: Mesh, size: int, count: int) -> None:
    peer, tensor = 1 - mesh.rank, torch.ones(size // 8, dtype=torch.int64)
    send, receive = {peer: [tensor]}, {peer: [Spec((size // 8,), torch.int64)]}
    for _ in range(count):
        mesh.exchange(send, receive)
    mesh.flush()


def _ping_pong(sock: socket.socket, rank: int) -> None:
    """There and back again: the second process answers what it has received."""
    data = bytes(SHORT)
    if rank == 1:
        sock.recv(SHORT)
    for _ in range(SHORT_LAPS - rank):
        sock.send(data)
        sock.recv(SHORT)
    if rank == 1:
        sock.send(data)


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
            f"{row['name']:30} {row['value']:8.2f} {row['unit']:4} {row['ratio']:6.2f} of "
            f"{row['ratio_of']:24} (target {row['target']}; {row['note']})"
        )
