"""Each party in a process of its own, with TCP and TLS between them on this machine."""

from __future__ import annotations

import os
import secrets
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from time import monotonic
from typing import Any, NamedTuple

from ...config import Config
from ...errors import PartyFailed
from ...transport import Limits, Network
from ..placement import PartyDevices
from .child import Endpoint, PartyTask, serve_party
from .outcome import Failure, Outcome, Success, collect
from .pickled import GUARD, pack, unpack
from .program import Program

START_SECONDS = 120.0  # for a new process to import everything
PATIENCE_SECONDS = 2.0  # for the others to end by themselves after a failure
# Milliseconds for which torch's allocator keeps memory that is free, where it is mimalloc (on ARM).
# With its default of 10, a party that waits for a message gets all its pages anew.
KEEP_MEMORY = ("MIMALLOC_PURGE_DELAY", "2000")


class Child(NamedTuple):
    """The process of a party, seen from the caller."""

    rank: int
    process: SpawnProcess
    link: Connection

    @classmethod
    def start(cls, task: PartyTask) -> Child:
        context = get_context("spawn")
        link, far_end = context.Pipe()
        name = f"tacit-party-{task.rank}"
        process = context.Process(target=serve_party, args=(far_end, task), name=name)
        try:
            with _environment(*KEEP_MEMORY):
                process.start()
        except BaseException:
            link.close()
            raise
        finally:
            far_end.close()  # so that the end of the process is the end of the link
        return cls(task.rank, process, link)

    def take(self) -> Outcome:
        """What the party sent: its endpoint, or how it ended; or how its process ended."""
        try:
            message = unpack(self.link.recv_bytes(), "an outcome")
        except (EOFError, OSError):
            return Failure(PartyFailed(self._death(), party=self.rank), monotonic())
        return Success(self.rank, message) if isinstance(message, Endpoint) else message

    def end(self) -> None:
        if self.process.is_alive():
            self.process.kill()  # unlike terminate(), this ends a stopped process too
        self.process.join()
        self.process.close()
        self.link.close()

    def _death(self) -> str:
        self.process.join(PATIENCE_SECONDS)
        code = self.process.exitcode
        if code is not None and code < 0:
            return f"its process was killed by {signal.Signals(-code).name} (exit code {code})"
        hint = f". Its own output says why; {GUARD}" if code == 1 else ""
        return f"its process ended with exit code {code} and without a result{hint}"


@contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    """Within the block new processes get this variable, unless it is set already."""
    if name in os.environ:
        yield
        return
    os.environ[name] = value
    try:
        yield
    finally:
        del os.environ[name]


def run_processes(
    program: Program,
    *,
    devices: Sequence[PartyDevices],
    config: Config,
    limits: Limits,
    network: Network,
) -> list[Any]:
    """Returns each party's return value. A party's private key never leaves its process."""
    parties = len(devices)
    task = PartyTask(
        rank=0,
        parties=parties,
        devices=devices[0],
        session_id=secrets.token_bytes(16),
        config=config,
        limits=limits,
        network=network,
        program=pack(program, "main or one of its arguments"),
    )
    children: list[Child] = []
    try:
        for rank in range(parties):
            children.append(Child.start(replace(task, rank=rank, devices=devices[rank])))
        _introduce(children, program.names)
        results = collect(
            _receiver(children), parties, patience=PATIENCE_SECONDS, names=program.names
        )
        for child in children:
            child.process.join(PATIENCE_SECONDS)
        return [unpack(result, "a return value") for result in results]
    finally:  # also after an interrupt
        for child in children:
            child.end()


def _introduce(children: list[Child], names: Sequence[str]) -> None:
    """Tells every party where the others listen and which certificates they have."""
    endpoints = collect(
        _receiver(children),
        len(children),
        patience=PATIENCE_SECONDS,
        names=names,
        deadline=START_SECONDS,
    )
    packed = pack(endpoints, "the endpoints")
    for child in children:
        with suppress(OSError):  # a party that has ended meanwhile says so in the next collect
            child.link.send_bytes(packed)


def _receiver(children: list[Child]) -> Callable[[float | None], Outcome | None]:
    waiting = list(children)

    def receive(timeout: float | None) -> Outcome | None:
        ready = wait([child.link for child in waiting], timeout)
        for child in waiting:
            if child.link in ready:
                waiting.remove(child)
                return child.take()
        return None

    return receive
