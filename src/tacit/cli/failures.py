"""How a command ends when something fails: one clear line, and an exit code that says what kind."""

from __future__ import annotations

import re
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

import typer

from .. import errors
from .interrupt import terminable
from .output import Screen

PACKAGE = Path(__file__).parents[1]


class Code(IntEnum):
    """The exit codes; 0 is well."""

    JOB = 1
    USAGE = 2
    PEER = 3
    REFUSED = 4
    CHECKPOINT = 5
    INTERRUPTED = 130


MEANINGS = {
    Code.JOB: "the job's own error, or an answer of no",
    Code.USAGE: "usage or configuration",
    Code.PEER: "a peer or the network",
    Code.REFUSED: "refused by the reveal policy, or the parties do not agree",
    Code.CHECKPOINT: "a checkpoint",
    Code.INTERRUPTED: "interrupted",
}
# The first that fits an error counts; an error of the job's own lines that none fits is JOB.
CODES: tuple[tuple[type[BaseException], Code], ...] = (
    (KeyboardInterrupt, Code.INTERRUPTED),
    (typer.Abort, Code.INTERRUPTED),  # at a prompt
    (errors.HandshakeMismatch, Code.REFUSED),
    (errors.RevealForbidden, Code.REFUSED),
    (errors.TransportError, Code.PEER),
    (errors.ProtocolError, Code.PEER),
    (errors.CheckpointRejected, Code.CHECKPOINT),
    (errors.ConfigError, Code.USAGE),
)


@dataclass
class Circumstances:
    """What is known when an error comes: the parties' names by rank, and the job, if there is one.

    An error that passed through code in the job's folder, and is no peer's, is the job's own.
    """

    names: Sequence[str] = ()
    job: Path | None = None


@contextmanager
def reported(screen: Screen, *, debug: bool) -> Iterator[Circumstances]:
    """Within, an error is printed, in JSON too if asked for, and ends the command with its code."""
    known = Circumstances()
    try:
        with terminable():
            yield known
    except typer.Exit:
        raise
    except BaseException as error:
        code, message = explain(error, known)
        if debug:
            message = f"{message}\n\n{''.join(traceback.format_exception(error))}"
        screen.document(
            {
                "error": message,
                "kind": root_name(error),
                "party": _party(error, known.names),
                "operation": getattr(error, "operation", None),
                "exit_code": int(code),
            }
        )
        sys.stdout.flush()
        print(f"error: {message}", file=sys.stderr, flush=True)
        raise typer.Exit(code) from None


def explain(error: BaseException, known: Circumstances) -> tuple[Code, str]:
    """The exit code of an error, and what to say of it."""
    trace = _trace(error)
    own = _frames(trace, known.job)
    code = _code(error, own=bool(own))
    if code is Code.INTERRUPTED:
        return code, "interrupted"
    message = _message(error, known.names)
    if code is Code.JOB and own:
        return code, f"{message}\n{cut(trace, known.job)}"
    if code is Code.JOB and not isinstance(error, errors.Error):
        return code, f"{message}; --debug shows where"
    return code, message + (f" (at {own[-1]})" if own else "")


def _code(error: BaseException, *, own: bool) -> Code:
    kind = type(error)
    if isinstance(error, errors.PartyFailed):
        kind = {**vars(errors), "KeyboardInterrupt": KeyboardInterrupt}.get(root_name(error), kind)
    for one, code in CODES:
        if issubclass(kind, one):
            return Code.JOB if code is Code.USAGE and own else code
    return Code.USAGE if isinstance(error, OSError) and not own else Code.JOB


def root_name(error: BaseException) -> str:
    """The name of the error's class; of a failed party, that of its own error."""
    if isinstance(error, errors.PartyFailed):
        return str(error).partition("failed: ")[2].partition(":")[0]
    return type(error).__name__


def _party(error: BaseException, names: Sequence[str]) -> str | int | None:
    rank = getattr(error, "party", None)
    return names[rank] if rank is not None and rank < len(names) else rank


def _message(error: BaseException, names: Sequence[str]) -> str:
    """What to say of an error, with the names of parties; of a failed one without its traceback."""
    if names:
        from ..runtime.deploy.party_names import put_names

        put_names(error, names)
    if isinstance(error, errors.PartyFailed):
        return str(error).partition("\n\nThe traceback of ")[0]
    if isinstance(error, errors.Error):
        return str(error)
    return f"{type(error).__name__}: {error}"


def _trace(error: BaseException) -> str:
    if isinstance(error, errors.PartyFailed):
        return str(error).partition("\n\nThe traceback of ")[2].partition("\n")[2]
    return "".join(traceback.format_exception(error))


def _frames(trace: str, job: Path | None) -> list[str]:
    """The job's own lines in a traceback, as "job.py:3 in main"."""
    found = re.findall(r'^  File "(.*)", line (\d+), in (.*)$', trace, re.MULTILINE)
    return [f"{Path(f).name}:{line} in {name}" for f, line, name in found if _belongs(f, job)]


def cut(trace: str, job: Path | None) -> str:
    """A traceback with the frames of the job's folder alone."""
    kept: list[str] = []
    keep = True
    for line in trace.rstrip().splitlines():
        if line.startswith('  File "'):
            keep = _belongs(line.split('"')[1], job)
        elif not line.startswith("    "):
            keep = True
        if keep:
            kept.append(line)
    return "\n".join(kept)


def _belongs(file: str, job: Path | None) -> bool:
    path = Path(file).resolve()
    foreign = file.startswith("<") or path.is_relative_to(PACKAGE) or "site-packages" in path.parts
    return job is not None and path.is_relative_to(job.resolve().parent) and not foreign
