"""How a command ends when something fails: one line, and an exit code that says what kind it is."""

from __future__ import annotations

import signal
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum
from types import FrameType
from typing import Any, NoReturn

import typer

from .. import errors
from .screen import Screen


class Code(IntEnum):
    """The exit codes; 0 is well."""

    JOB = 1
    USAGE = 2
    PEER = 3
    REFUSED = 4
    CHECKPOINT = 5
    INTERRUPTED = 130


MEANINGS = {
    Code.JOB: "the job's own error, or a check that found a problem",
    Code.USAGE: "usage or configuration",
    Code.PEER: "a peer or the network",
    Code.REFUSED: "refused by the reveal policy or an attestation, or the parties do not agree",
    Code.CHECKPOINT: "a checkpoint or a stored run",
    Code.INTERRUPTED: "interrupted",
}
# The first class that fits an error counts. If none fits, an error of the job's lines is JOB.
CODES: tuple[tuple[type[BaseException], Code], ...] = (
    (KeyboardInterrupt, Code.INTERRUPTED),
    (typer.Abort, Code.INTERRUPTED),  # at a prompt
    (errors.HandshakeMismatch, Code.REFUSED),
    (errors.RevealForbidden, Code.REFUSED),
    (errors.AttestationRejected, Code.REFUSED),
    (errors.TransportError, Code.PEER),
    (errors.ProtocolError, Code.PEER),
    (errors.CheckpointRejected, Code.CHECKPOINT),
    (errors.PreprocessingRejected, Code.CHECKPOINT),
    (errors.ConfigError, Code.USAGE),
)


@dataclass
class Known:
    """What a command knows when an error comes: the parties' names by rank."""

    names: Sequence[str] = ()


@contextmanager
def reported(screen: Screen, *, debug: bool) -> Iterator[Known]:
    """Within, an error is printed, in JSON too if asked for, and ends the command with its code."""
    known = Known()
    try:
        with terminable():
            yield known
    except typer.Exit:
        raise
    except BaseException as error:
        code, message = explain(error, known)
        screen.document({"error": message, **_fields(error, known), "exit_code": int(code)})
        sys.stdout.flush()
        trace = f"\n\n{_all_lines(error)}" if debug else ""
        print(f"error: {message}{trace}", file=sys.stderr, flush=True)
        raise typer.Exit(code) from None


def _all_lines(error: BaseException) -> str:
    """Returns the traceback of an error; of a failed party, that of the party."""
    trace = error.trace if isinstance(error, errors.PartyFailed) else ""
    return trace or "".join(traceback.format_exception(error))


def explain(error: BaseException, known: Known) -> tuple[Code, str]:
    """Returns the exit code of an error, and one line that says what happened and where."""
    if isinstance(error, errors.Error) and known.names:
        error.names = known.names
    code = _code(error)
    if code is Code.INTERRUPTED:
        return code, "interrupted"
    message = " ".join(errors.one_line(error).splitlines())
    if code is Code.JOB and not isinstance(error, errors.Error) and _line(error) is None:
        return code, f"{message}; --debug shows where"
    return code, message


def _code(error: BaseException) -> Code:
    kind, own = type(error), _line(error) is not None
    if isinstance(error, errors.PartyFailed):
        kind = {**vars(errors), "KeyboardInterrupt": KeyboardInterrupt}.get(error.kind, kind)
    for one, code in CODES:
        if issubclass(kind, one):
            return Code.JOB if code is Code.USAGE and own else code
    return Code.USAGE if isinstance(error, OSError) and not own else Code.JOB


def _line(error: BaseException) -> errors.Frame | None:
    """The job's line that led to the error."""
    return errors.lines_of(error)[0]


def _fields(error: BaseException, known: Known) -> dict[str, Any]:
    fields = errors.fields_of(error)
    rank = fields["party"]
    if rank is not None and rank < len(known.names):
        fields["party"] = known.names[rank]
    return fields


@contextmanager
def terminable() -> Iterator[None]:
    """Within, SIGTERM raises KeyboardInterrupt as Ctrl-C does, and the other parties hear of it.

    Does nothing outside of the main thread, which alone can take signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _interrupt(number: int, _: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt(signal.Signals(number).name)
