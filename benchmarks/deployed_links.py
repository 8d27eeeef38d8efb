"""The links of deployed parties: bytes of TLS one way, and what a replayed round costs beside them.

A round of a replay is a chain of small ReLUs over the number of their rounds. Beside it stand a
round of the mesh alone, with messages like those of a plan, and a ping-pong of bare TCP sockets
between the same processes, which is the latency that nothing can avoid. The difference of the first
two is what a plan does (kernels, Python), the difference of the last two what the transport does
(TLS, headers, checks).
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

import torch
from benchmarks.measure import Row, interleaved, replayed_ms
from benchmarks.transport import aes_gcm

import tacit
from tacit.transport import Spec
from tacit.transport.wire.stripes import default_stripes

BYTES = 256 << 20
REPETITIONS, WARM_UP = 5, 6
RELUS, SIZE = 16, 64
LAPS = 500
TLS_TARGETS = {16: 3.0}  # GB/s by cores
ROUND_TARGETS = {"cpu": 60.0, "cuda": 100.0}  # us beyond latency
EVALUATORS = (1, 2)
STRIPES, MANY_CORES = (2, 4, 6, 8), 8  # numbers of stripes that are tried with so many cores


def link_rows(device: str) -> list[tuple[str, Callable[[], list[Row]]]]:
    """Names and measurements."""
    devices = ["cpu"] if device == "cpu" else ["cpu", device]
    rounds = [(f"round beyond latency, {d} parties", partial(_round_row, d)) for d in devices]
    return [("TLS, one pair, one way", _tls_row), *rounds]


def one_way(session: tacit.Session) -> float:
    """GB/s from party 0 to party 1, until a word comes back."""
    words, word = torch.ones(BYTES // 8, dtype=torch.int64), torch.zeros(1, dtype=torch.int64)
    long, short = Spec(tuple(words.shape), torch.int64), Spec((1,), torch.int64)
    seconds = []
    for _ in range(WARM_UP + REPETITIONS):
        session.mesh.compare()
        begin = time.perf_counter()
        got = session.mesh.exchange(*_side(session, 0, {1: [words]}, {0: [long]}))
        session.mesh.exchange(*_side(session, 1, {0: [word]}, {1: [short]}))
        seconds.append(time.perf_counter() - begin)
        if got and not torch.equal(got[0][0], words):
            raise RuntimeError("other bytes arrived than were sent")
    return BYTES / median(seconds[WARM_UP:]) / 1e9


def _side(session: tacit.Session, sender: int, send: Any, receive: Any) -> tuple[Any, Any]:
    """What a party sends and receives in a message from one of the first two to the other."""
    if session.rank == sender:
        return send, {}
    return {}, receive if session.rank == 1 - sender else {}


def _tls_row() -> list[Row]:
    available, gcm = len(os.sched_getaffinity(0)), aes_gcm()
    chosen = default_stripes()
    rates = {
        count: tacit.run(one_way, transport="processes", stripes=count)[0]
        for count in sorted({1, chosen, *(STRIPES if available >= MANY_CORES else ())})
    }
    target = TLS_TARGETS.get(available, gcm)
    return [
        Row(
            name="TLS, one pair, one way",
            value=rates[chosen],
            unit="GB/s",
            baseline="target" if available in TLS_TARGETS else "AES-256-GCM on one core",
            baseline_value=target,
            target=1.0,
            note=f"{BYTES >> 20} MB; {available} cores, {chosen} stripes; AES-256-GCM {gcm:.2f} "
            "GB/s a core; by stripes "
            + ", ".join(f"{count}: {found:.2f}" for count, found in rates.items())
            + "; before: 0.4",
        )
    ]


def rounds(session: tacit.Session) -> tuple[float, float, float]:
    """Microseconds of a replayed round, of one of the mesh alone, and of bare sockets."""
    x = session.share(torch.linspace(-2, 2, SIZE), owner=0)

    def chain(x: torch.Tensor) -> torch.Tensor:
        for _ in range(RELUS):
            x = torch.relu(x) - 0.125
        return x

    call = session.repeated(chain)
    with torch.no_grad():
        ms, _ = replayed_ms(lambda: call(x), session, warm_up=WARM_UP, repetitions=REPETITIONS)
    with session.stats.scope("chain") as cost, torch.no_grad():
        session.numbers.settled(call(x).value)  # type: ignore[attr-defined]
    replayed = 1e3 * ms / max(cost.rounds, 1)
    return replayed, *_links(session)


def _links(session: tacit.Session) -> tuple[float, float]:
    """Microseconds of a round of the evaluators: of the mesh, and of bare sockets."""
    if session.rank not in EVALUATORS:
        return 0.0, 0.0
    bare = _bare_socket(session)
    found = interleaved(
        {"mesh": lambda: _exchanges(session), "bare": lambda: _ping_pong(bare, session.rank)}
    )
    bare.close()
    return found["mesh"] / LAPS * 1e6, found["bare"] / LAPS * 1e6


def _exchanges(session: tacit.Session) -> None:
    mesh, peer = session.mesh, sum(EVALUATORS) - session.rank
    words, place = (torch.ones(SIZE, dtype=torch.int64, device=session.device) for _ in range(2))
    fixed = mesh.fixed_round({peer: [words]}, {peer: [place]}, ahead=False)
    send, receive = {peer: [words]}, {peer: [Spec((SIZE,), torch.int64)]}
    for lap in range(LAPS):
        if fixed is None:
            mesh.exchange(send, receive)
        else:
            mesh.begin_fixed(fixed, lap)
            mesh.finish_fixed(fixed)


def _bare_socket(session: tacit.Session) -> socket.socket:
    """A TCP connection between the evaluators beside those of the mesh."""
    first, second = EVALUATORS
    if session.rank == first:
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            session.mesh.exchange_bytes({second: port.to_bytes(4, "little")}, [])
            sock = server.accept()[0]
    else:
        port = int.from_bytes(session.mesh.exchange_bytes({}, [first])[first], "little")
        sock = socket.create_connection(("127.0.0.1", port))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def _ping_pong(sock: socket.socket, rank: int) -> None:
    """Both send and then receive, as in a round."""
    data = bytes(8 * SIZE)
    for _ in range(LAPS):
        sock.sendall(data)
        sock.recv(len(data), socket.MSG_WAITALL)


def _round_row(device: str) -> list[Row]:
    found = tacit.run(rounds, device=device, transport="processes", deadline=120.0)
    replayed, mesh, bare = max(found[rank] for rank in EVALUATORS)
    return [
        Row(
            name=f"round beyond latency, {device} parties",
            value=replayed - bare,
            unit="us",
            baseline="target",
            baseline_value=ROUND_TARGETS[device],
            target=1.0,
            lower_is_better=True,
            note=f"a replayed round {replayed:.0f} us: bare sockets {bare:.0f}, transport "
            f"{mesh - bare:.0f}, plan {replayed - mesh:.0f}; {len(os.sched_getaffinity(0))} cores",
        )
    ]
