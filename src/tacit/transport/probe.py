"""How good the links of a mesh are: what `tacit party check` measures.

All parties probe at the same time. The pairs take turns, in the same order at every party, so that
no pair disturbs another.
"""

from __future__ import annotations

import json
import platform
import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import version
from itertools import combinations
from statistics import median
from typing import NamedTuple

import torch

from ..errors import ConfigError, FrameRejected, Party
from .mesh import Mesh
from .wire.frames import Spec

_ROUNDS = 20
_FIRST_OPERATION = 1 << 32  # unlike any that a program has reached
_TIMES = struct.Struct("<dd")
_MEGABYTE = 1 << 20
_MAX_VERSIONS = 16
_MAX_TEXT = 80
_MAX_TIME = 1 << 40  # s since 1970


@dataclass(frozen=True)
class Link:
    """The link to one peer.

    The latency is half of a round trip. The bandwidth is that of each direction while both are
    used. A positive clock difference says that the peer's clock is ahead of this party's.
    """

    latency_s: float
    bandwidth_bytes_per_s: float
    clock_difference_s: float
    versions: dict[str, str]
    certificate_expires: datetime | None


def probe(
    mesh: Mesh, *, megabytes: int = 8, versions: Mapping[str, str] | None = None
) -> dict[int, Link]:
    """The links of this party by rank of the peer; `versions` is what it tells of itself."""
    if not 0 < megabytes * _MEGABYTE <= 1 << 30:
        raise ConfigError(f"megabytes={megabytes}", limit="allowed are 1 to 1024")
    own = _versions() if versions is None else dict(versions)
    with mesh.stats.scope("probe"):
        links = {}
        for number, pair in enumerate(combinations(range(mesh.parties), 2), _FIRST_OPERATION):
            if mesh.rank in pair:
                peer = sum(pair) - mesh.rank
                links[peer] = _Pair(mesh, peer, number).measure(megabytes, own)
        return links


def _versions() -> dict[str, str]:
    found = {"tacit": version("tacit"), "torch": torch.__version__}
    return found | {"python": platform.python_version()}


class _Pair(NamedTuple):
    """This party and a peer while they measure; `operation` is the number of their messages."""

    mesh: Mesh
    peer: int
    operation: int

    def tell(self, data: bytes) -> None:
        self.mesh.exchange_bytes({self.peer: data}, (), operation=self.operation)

    def hear(self) -> bytes:
        return self.mesh.exchange_bytes({}, [self.peer], operation=self.operation)[self.peer]

    def measure(self, megabytes: int, versions: Mapping[str, str]) -> Link:
        self.tell(json.dumps(versions).encode())
        theirs = _read_versions(self.hear(), self.peer)
        trips: list[tuple[float, float]] = []
        for asking in sorted((self.mesh.rank, self.peer)):
            for _ in range(_ROUNDS):
                if asking == self.mesh.rank:
                    trips.append(self._ask())
                else:
                    self._answer()
        latency = median(seconds for seconds, _ in trips) / 2
        rate = max(self._transfer(megabytes * _MEGABYTE) for _ in range(2))
        _, difference = min(trips)  # the quickest trip says most about the clocks
        expires = self.mesh.certificate_expires(self.peer)
        return Link(latency, rate, difference, theirs, expires)

    def _ask(self) -> tuple[float, float]:
        """Seconds of a round trip, and by how much the peer's clock is ahead, as NTP finds it."""
        started, clock = time.perf_counter(), time.time()
        self.tell(b"")
        reply = self.hear()
        seconds = time.perf_counter() - started
        came, left = _read_times(reply, self.peer)
        return seconds - (left - came), (came + left) / 2 - (clock + seconds / 2)

    def _answer(self) -> None:
        asked, came = self.hear(), time.time()
        if asked:
            raise FrameRejected(Party(self.peer) + f" asks in {len(asked)} bytes", party=self.peer)
        self.tell(_TIMES.pack(came, time.time()))

    def _transfer(self, size: int) -> float:
        """Bytes per second in each direction, both at once."""
        send = {self.peer: [torch.zeros(size, dtype=torch.uint8)]}
        self.tell(b"")  # so that both start together
        self.hear()
        started = time.perf_counter()
        receive = {self.peer: [Spec((size,), torch.uint8)]}
        self.mesh.exchange(send, receive, operation=self.operation)
        return size / (time.perf_counter() - started)


def _read_times(data: bytes, peer: int) -> tuple[float, float]:
    """When a question came and when the answer left, by the peer's clock."""
    if len(data) != _TIMES.size:
        raise FrameRejected(
            Party(peer) + f" tells the time in {len(data)} bytes instead of {_TIMES.size}",
            party=peer,
        )
    came, left = _TIMES.unpack(data)
    if not (abs(came) < _MAX_TIME and abs(left) < _MAX_TIME):
        raise FrameRejected(Party(peer) + " tells a time that is none", party=peer)
    return came, left


def _read_versions(data: bytes, peer: int) -> dict[str, str]:
    try:
        found = json.loads(data)
        texts = [text for item in found.items() for text in item]
    except (ValueError, AttributeError, RecursionError) as error:
        raise FrameRejected(Party(peer) + " tells no versions", party=peer) from error
    short = all(isinstance(t, str) and t.isprintable() and len(t) <= _MAX_TEXT for t in texts)
    if not short or len(found) > _MAX_VERSIONS:
        raise FrameRejected(
            Party(peer) + f" tells versions that are not up to {_MAX_VERSIONS} short texts",
            party=peer,
        )
    return dict(found)
