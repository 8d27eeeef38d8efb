"""The processes that a run starts, seen from the caller: parties and workers."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import current_process, get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from time import monotonic
from typing import Any, NamedTuple, Protocol

from ...errors import PartyFailed
from .endpoint import Endpoint
from .outcome import Failure, Outcome, Success, collect
from .pickled import GUARD, pack, unpack

START_SECONDS = 120.0  # for a new process to import everything
PATIENCE_SECONDS = 2.0  # for the others to end by themselves after a failure
ENVIRONMENT = {
    # Milliseconds for which torch's allocator keeps memory that is free, where it is mimalloc (on
    # ARM). With its default of 10, a party that waits for a message gets all its pages anew.
    "MIMALLOC_PURGE_DELAY": "2000",
    # torch's threads sleep when they have nothing to do. By default they look for work for
    # milliseconds, and the other parties of this machine wait for the core.
    "OMP_WAIT_POLICY": "passive",
}
UNGUARDED = 113  # the exit code of a process that imports a script without a guard


class Child(NamedTuple):
    """The process of a party or a worker, seen from the caller."""

    rank: int
    process: SpawnProcess
    link: Connection

    @classmethod
    def start(
        cls, serve: Callable[[Connection, Any], None], task: Any, name: str, rank: int
    ) -> Child:
        """Starts a process that calls `serve(link, task)`; `rank` is that of its outcome."""
        if getattr(current_process(), "_inheriting", False):  # it still imports the script
            raise SystemExit(UNGUARDED)  # which its own caller explains
        context = get_context("spawn")
        link, far_end = context.Pipe()
        process = context.Process(target=serve, args=(far_end, task), name=name)
        try:
            with _environment(ENVIRONMENT):
                process.start()
        except BaseException:
            link.close()
            raise
        finally:
            far_end.close()  # so that the end of the process is the end of the link
        return cls(rank, process, link)

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
        if code == UNGUARDED:
            return f"its process imports your script, which starts parties again: {GUARD}"
        return death(code) + (". Its own output says why" if code == 1 else "")


def death(code: int | None) -> str:
    """Returns in words how a process ended that told nothing."""
    if code is not None and code < 0:
        return f"its process was killed by {signal.Signals(-code).name} (exit code {code})"
    return f"its process ended with exit code {code} and without a result"


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Within the block new processes get these variables, except those that are set already."""
    added = {name: value for name, value in variables.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)


def endpoints_of(children: Sequence[Child], names: Sequence[str]) -> list[Endpoint]:
    """Returns where all of them listen and which certificates they have."""
    return collect(
        receiver(children),
        len(children),
        patience=PATIENCE_SECONDS,
        names=names,
        deadline=START_SECONDS,
    )


def tell(children: Sequence[Child], value: Any) -> None:
    """Sends all of them the same."""
    packed = pack(value, "the endpoints")
    for child in children:
        with suppress(OSError):  # a party that has ended meanwhile says so in the next collect
            child.link.send_bytes(packed)


class Reporting(Protocol):
    """Something that ends with an outcome, which it gives once `link` is readable."""

    @property
    def link(self) -> Connection: ...

    def take(self) -> Outcome: ...


def receiver(children: Sequence[Reporting]) -> Callable[[float | None], Outcome | None]:
    """Returns what gives the next outcome of any of them, for `collect`."""
    waiting = list(children)

    def receive(timeout: float | None) -> Outcome | None:
        ready = wait([child.link for child in waiting], timeout)
        for child in waiting:
            if child.link in ready:
                waiting.remove(child)
                return child.take()
        return None

    return receive
