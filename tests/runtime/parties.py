"""Parties and rogues as real processes, for the failure tests.

The processes are forks of one that has imported everything (`tests/forked.py`). Every process
listens, tells the test its address, gets those of all, behaves, and reports how it ended.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from time import monotonic

from tests.forked import CONTEXT

from tacit.crypto import Credentials, create_credentials
from tacit.errors import Error
from tacit.transport import Hello, Identity, Limits, Mesh, connect, listen
from tacit.transport.wire.tcp import Listener

HOST = "127.0.0.1"
PARTIES = 3


@cache
def credentials(name: str) -> Credentials:
    return create_credentials(name)


@dataclass(frozen=True, kw_only=True)
class Part:
    """What one process needs to take part."""

    rank: int
    limits: Limits
    own: Credentials
    pinned: tuple[bytes, ...]
    link: Connection
    port: int = 0
    addresses: Sequence[tuple[str, int]] = ()

    @property
    def hello(self) -> Hello:
        return Hello(session=bytes(16), rank=self.rank, parties=PARTIES)

    def connect(self, listener: Listener, **changes: object) -> Mesh:
        return connect(
            replace(self.hello, **changes),
            listener,
            self.addresses,
            identity=Identity(self.own.certificate, self.own.private_key, self.pinned),
            limits=self.limits,
        )


Behaviour = Callable[[Part, Listener], None]


@dataclass(frozen=True)
class Report:
    """How a party ended: its error, when, and what it left open."""

    error: str = ""
    party: int | None = None
    operation: int | None = None
    message: str = ""
    time: float = 0.0
    left: list[str] = field(default_factory=list)


def talk(part: Part, listener: Listener) -> None:
    """An honest party: rounds with everybody for ever; says so after the third."""
    peers = [peer for peer in range(PARTIES) if peer != part.rank]
    with part.connect(listener) as mesh:
        listener.close()
        for count in range(sys.maxsize):
            mesh.exchange_bytes(dict.fromkeys(peers, b"word"), peers)
            if count == 2:
                part.link.send("talking")


def take_part(behaviour: Behaviour, part: Part) -> None:
    """The life of a process; its exit code is 1 if it ended with an error of Tacit."""
    before = open_sockets()
    try:
        with listen(HOST, part.port) as listener:
            part.link.send(listener.address)
            behaviour(replace(part, addresses=part.link.recv()), listener)
        report = Report()
    except Error as error:
        name = type(error).__name__
        report = Report(name, error.party, error.operation, str(error), monotonic())
    left = sorted(open_sockets() - before)
    left += [t.name for t in threading.enumerate() if t is not threading.current_thread()]
    part.link.send(replace(report, left=left))
    sys.exit(bool(report.error))


def open_sockets() -> set[str]:
    found = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{name}")
        except FileNotFoundError:  # the listing's own
            continue
        if target.startswith("socket:"):
            found.add(target)
    return found


class Stage:
    """A test's view of the processes: two that behave as `others`, and the odd one at `bad`."""

    def __init__(
        self,
        behaviour: Behaviour,
        *,
        limits: Limits,
        bad: int = PARTIES - 1,
        others: Behaviour = talk,
        **changes: object,
    ) -> None:
        self.bad = bad
        self.honest = [rank for rank in range(PARTIES) if rank != bad]
        self.processes: list[BaseProcess] = []
        self.links: list[Connection] = []
        self.early: dict[int, Report] = {}  # of those that ended before they were introduced
        self.ended: dict[int, Report] = {}  # of those that a test has asked
        for rank in range(PARTIES):
            self._start(*((behaviour, changes) if rank == bad else (others, {})), rank, limits)
        self._introduce()

    def _start(
        self, behaviour: Behaviour, changes: dict[str, object], rank: int, limits: Limits
    ) -> None:
        here, there = CONTEXT.Pipe()
        names = [f"party {other}" for other in range(PARTIES)]
        pinned = tuple(credentials(name).certificate for name in names)
        part = Part(
            rank=rank, limits=limits, own=credentials(names[rank]), pinned=pinned, link=there
        )
        process = CONTEXT.Process(target=take_part, args=(behaviour, replace(part, **changes)))
        process.start()
        there.close()
        self.processes.append(process)
        self.links.append(here)

    def _introduce(self) -> None:
        """Lets everybody know where the others listen, or would listen."""
        addresses = []
        for rank in range(len(self.links)):
            word = self.hear(rank)
            if isinstance(word, Report):
                self.early[rank] = word
            addresses.append((HOST, 1) if isinstance(word, Report) else word)
        for rank, link in enumerate(self.links):
            if rank not in self.early:
                link.send(addresses)

    def hear(self, rank: int, seconds: float = 120.0) -> object:
        """The next message of a process."""
        assert self.links[rank].poll(seconds), f"no word from party {rank}"
        return self.links[rank].recv()

    def report(self, rank: int, seconds: float = 120.0) -> Report:
        """How a party ended, once it has."""
        heard: object = self.early.get(rank)
        while not isinstance(heard, Report):
            heard = self.hear(rank, seconds)
        self.processes[rank].join(seconds)
        return heard

    def end(self) -> None:
        for process, link in zip(self.processes, self.links, strict=True):
            process.kill()
            process.join()
            process.close()
            link.close()
