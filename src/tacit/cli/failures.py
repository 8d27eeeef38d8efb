"""How a command ends when something fails: one clear line, and an exit code that says what kind.

0 all is well; 1 the job's own error, or an answer of no; 2 usage or configuration; 3 a peer or the
network; 4 refused by the reveal policy or by the parties' agreement; 5 a checkpoint; 130
interrupted.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

import typer

from .. import errors
from .screen import Screen

PACKAGE = Path(__file__).parents[1]


class Code(IntEnum):
    """The exit codes."""

    JOB = 1
    USAGE = 2
    PEER = 3
    REFUSED = 4
    CHECKPOINT = 5
    INTERRUPTED = 130


CODES: tuple[tuple[type[BaseException], Code], ...] = (
    (KeyboardInterrupt, Code.INTERRUPTED),
    (errors.HandshakeMismatch, Code.REFUSED),
    (errors.RevealForbidden, Code.REFUSED),
    (errors.TransportError, Code.PEER),
    (errors.CheckpointRejected, Code.CHECKPOINT),
    (errors.ConfigError, Code.USAGE),
)


@dataclass
class Circumstances:
    """What is known when an error comes: the parties' names by rank, and the job that runs."""

    names: Sequence[str] = ()
    job: Path | None = None
    running: bool = False

    @contextmanager
    def at_work(self, job: Path) -> Iterator[None]:
        """Within, code of the job runs; an error that leaves is its own, or a peer's."""
        self.job, self.running = job, True
        yield
        self.running = False


@contextmanager
def reported(screen: Screen, *, debug: bool) -> Iterator[Circumstances]:
    """Within, an error is printed, in JSON too if asked for, and ends the command with its code."""
    known = Circumstances()
    try:
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
                "kind": _root_name(error),
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
    code = _code(error, running=known.running)
    if code is Code.INTERRUPTED:
        return code, "interrupted; the other parties were told"
    if isinstance(error, errors.PartyFailed):
        return code, _failed(error, known, code)
    if code is Code.JOB and known.running:
        return code, _own(error, known)
    if not isinstance(error, errors.Error | OSError):
        return code, f"{type(error).__name__}: {error}; --debug shows where"
    return code, _named(error, known.names) + (_place(error, known) if known.running else "")


def _code(error: BaseException, *, running: bool) -> Code:
    kind = type(error)
    if isinstance(error, errors.PartyFailed):
        kind = {**vars(errors), "KeyboardInterrupt": KeyboardInterrupt}.get(_root_name(error), kind)
    for one, code in CODES:
        if issubclass(kind, one):
            return Code.JOB if code is Code.USAGE and running else code
    return Code.USAGE if isinstance(error, OSError) and not running else Code.JOB


def _root_name(error: BaseException) -> str:
    """The name of the error's class; of a failed party, that of its own error."""
    if isinstance(error, errors.PartyFailed):
        first = str(error).splitlines()[0]
        return first.partition("failed: ")[2].partition(":")[0]
    return type(error).__name__


def _party(error: BaseException, names: Sequence[str]) -> str | int | None:
    rank = getattr(error, "party", None)
    return names[rank] if rank is not None and rank < len(names) else rank


def _named(error: BaseException, names: Sequence[str]) -> str:
    """The message; where it speaks of a party by rank alone, with its name."""
    message, name, rank = str(error), _party(error, names), getattr(error, "party", None)
    if isinstance(error, errors.PeerClosed) and "KeyboardInterrupt" in message:
        return f"{name} interrupted the run (operation {error.operation}); start all parties again"
    if isinstance(name, str) and name not in message:
        message += f" (party {rank} is {name})"
    return message


def _failed(error: errors.PartyFailed, known: Circumstances, code: Code) -> str:
    """What `tacit.run` says of a failed party, with the traceback of the job alone."""
    first, _, rest = str(error).partition("\n")
    if code is not Code.JOB:
        return first
    trace = rest.strip().partition("\n")[2]
    return f"{first}\n{cut(trace, known.job)}".rstrip()


def _own(error: BaseException, known: Circumstances) -> str:
    trace = "".join(traceback.format_exception(error))
    return f"the job failed: {type(error).__name__}: {error}\n{cut(trace, known.job)}"


def _place(error: BaseException, known: Circumstances) -> str:
    """Where in the job it happened."""
    own = [f for f in traceback.extract_tb(error.__traceback__) if _belongs(f.filename, known.job)]
    return f" (at {Path(own[-1].filename).name}:{own[-1].lineno} in {own[-1].name})" if own else ""


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
