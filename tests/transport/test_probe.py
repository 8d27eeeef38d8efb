"""What a party finds out about its links, and what it does not believe."""

from __future__ import annotations

import datetime
import json
import math
import platform
import struct
import threading
import time
from collections.abc import Callable

import pytest
import torch
from tests.transport.parties import SOCKETS, run

from tacit.errors import ConfigError, FrameRejected, PeerClosed, ProtocolDesync
from tacit.transport import Limits, Mesh
from tacit.transport.probe import _FIRST_OPERATION as FIRST
from tacit.transport.probe import Link, probe

LIMITS = Limits(deadline=60.0, connect_deadline=60.0)


@pytest.mark.parametrize("kind", ["memory", *SOCKETS])
def test_every_pair_is_measured(kind: str) -> None:
    for rank, links in enumerate(run(kind, probe, 3, limits=LIMITS).values()):
        assert set(links) == {0, 1, 2} - {rank}
        for link in links.values():
            assert 0 < link.latency_s < 10
            assert link.bandwidth_bytes_per_s > 0
            assert abs(link.clock_difference_s) < 10
            assert link.versions["torch"] == torch.__version__
            assert link.versions["python"] == platform.python_version()
            assert set(link.versions) == {"tacit", "torch", "python"}
            assert (link.certificate_expires is not None) == (kind == "tls")


def test_when_a_certificate_expires() -> None:
    links = run("tls", probe, limits=LIMITS).values()[0]
    left = links[1].certificate_expires - datetime.datetime.now(datetime.UTC)
    assert datetime.timedelta(hours=23) < left < datetime.timedelta(hours=24)


def test_a_slow_link_and_a_wrong_clock_show(monkeypatch: pytest.MonkeyPatch) -> None:
    """The parties are threads: the clock of one is shifted by its name."""
    slow = {"default": "loopback", (0, 1): {"latency": 0.02, "bandwidth": 80e6}}
    right = time.time

    def program(mesh: Mesh) -> dict[int, Link]:
        ranks[threading.get_ident()] = mesh.rank
        return probe(mesh, megabytes=1)

    ranks: dict[int, int] = {}
    monkeypatch.setattr(
        "tacit.transport.probe.time.time",
        lambda: right() + 100 * (ranks.get(threading.get_ident()) == 1),
    )
    zero, one, _ = run("tcp", program, 3, limits=LIMITS, network=slow).values()
    assert 0.02 <= zero[1].latency_s < 10
    assert 0 < zero[1].bandwidth_bytes_per_s < 12e6  # 10 MB/s; both do not start at one moment
    assert zero[1].clock_difference_s == pytest.approx(100, abs=10)
    assert one[0].clock_difference_s == pytest.approx(-100, abs=10)
    assert abs(zero[2].clock_difference_s) < 10


def tell(versions: bytes) -> Callable[[Mesh], None]:
    def program(mesh: Mesh) -> None:
        mesh.exchange_bytes({0: versions}, [0], operation=FIRST)
        mesh.exchange_bytes({}, [0], operation=FIRST)

    return program


def tell_time(reply: bytes) -> Callable[[Mesh], None]:
    def program(mesh: Mesh) -> None:
        mesh.exchange_bytes({0: b"{}"}, [0], operation=FIRST)
        mesh.exchange_bytes({0: reply}, [0], operation=FIRST)
        mesh.exchange_bytes({}, [0], operation=FIRST)

    return program


@pytest.mark.parametrize(
    "rogue",
    [
        tell(b"\xff"),
        tell(b"[" * 100_000),
        tell(b"[1]"),
        tell(b'{"tacit": 1}'),
        tell(json.dumps({"tacit": "x" * 100}).encode()),
        tell(json.dumps({"tacit": "\x1b[31m"}).encode()),
        tell(json.dumps({str(i): "" for i in range(17)}).encode()),
        tell_time(b"noon"),
        tell_time(struct.pack("<dd", math.nan, 0.0)),
    ],
)
def test_a_malformed_answer_is_refused(rogue: Callable[[Mesh], None]) -> None:
    def program(mesh: Mesh) -> None:
        probe(mesh) if mesh.rank == 0 else rogue(mesh)

    error, other = run("tcp", program, limits=LIMITS)
    assert isinstance(error, FrameRejected)
    assert error.party == 1
    assert str(error).isprintable()
    assert isinstance(other, PeerClosed)


def test_a_party_that_does_not_probe_is_a_desync() -> None:
    def program(mesh: Mesh) -> None:
        if mesh.rank == 0:
            probe(mesh)
        else:
            mesh.exchange({0: [torch.zeros(3)]}, {})

    assert isinstance(run("tcp", program, limits=LIMITS)[0], ProtocolDesync)


@pytest.mark.parametrize("megabytes", [0, 1025])
def test_sizes_that_are_refused(megabytes: int) -> None:
    error = run("memory", lambda mesh: probe(mesh, megabytes=megabytes))[0]
    assert isinstance(error, ConfigError)
