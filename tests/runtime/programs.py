"""What the parties of the tests run; at the top level, so that other processes can import it."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import torch

from tacit import Session
from tacit.transport import Spec


def describe(session: Session, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
    return session.rank, session.parties, session.config.protocol, session.config.ring, args, kwargs


def add_up(session: Session, start: torch.Tensor) -> torch.Tensor:
    """The sum over all parties of start + rank, by sending it to everybody."""
    mine = start + session.rank
    peers = [peer for peer in range(session.parties) if peer != session.rank]
    spec = Spec(tuple(mine.shape), mine.dtype)
    received = session.mesh.exchange({p: [mine] for p in peers}, {p: [spec] for p in peers})
    return mine + sum(tensor for (tensor,) in received.values())


def variable(session: Session, name: str) -> str | None:
    """A variable of the environment of this party's process."""
    return os.environ.get(name)


def parent(session: Session) -> int:
    """The process that started this one."""
    return os.getppid()


def group_secret(session: Session) -> bytes:
    return session.keys.key(range(session.parties)).derive("test", 8)


def chat(session: Session) -> None:
    """One round in which every party waits for every other."""
    peers = [peer for peer in range(session.parties) if peer != session.rank]
    session.mesh.exchange_bytes(dict.fromkeys(peers, b"word"), peers)


def chat_until_failure(session: Session, bad: int, rounds: int = 3) -> None:
    for _ in range(rounds):
        chat(session)
    if session.rank == bad:
        raise LookupError("the cupboard is bare")
    while True:
        chat(session)


def give_up(session: Session, bad: int, how: str) -> None:
    if session.rank == bad:
        sys.exit(how)
    chat(session)


def leave_early(session: Session, leaver: int) -> None:
    if session.rank != leaver:
        chat(session)


def wait_for_each_other(session: Session) -> None:
    peers = [peer for peer in range(session.parties) if peer != session.rank]
    session.mesh.exchange_bytes({}, peers)


def compute_silently(session: Session, bad: int, seconds: float) -> None:
    """One party fails, once another is busy; that one does not look at its messages for a while."""
    busy = bad + 1
    if session.rank == bad:
        session.mesh.exchange_bytes({}, [busy])
        raise LookupError("the cupboard is bare")
    if session.rank == busy:
        session.mesh.exchange_bytes({bad: b"busy"}, [])
        time.sleep(seconds)
    chat(session)


def die(session: Session, bad: int, number: int, clock: str) -> None:
    """One party is ended by a signal in the midst of a conversation, at the time it writes down."""
    for _ in range(3):
        chat(session)
    if session.rank == bad:
        Path(clock).write_text(str(time.monotonic()))
        os.kill(os.getpid(), number)
    while True:
        chat(session)


def freeze(session: Session, bad: int, clock: str) -> None:
    die(session, bad, signal.SIGSTOP, clock)


def vanish(session: Session, bad: int, code: int) -> None:
    if session.rank == bad:
        os._exit(code)
    chat(session)


def unsendable(_session: Session) -> object:
    return lambda: "functions without a name cannot travel"


def linger(session: Session, folder: str) -> None:
    """Writes its process id into the folder, then talks for ever."""
    (Path(folder) / str(session.rank)).write_text(str(os.getpid()))
    while True:
        chat(session)
        time.sleep(0.01)


def ask_for_protocol(session):
    return session.protocol
