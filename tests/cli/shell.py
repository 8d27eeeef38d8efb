"""The command line as a user has it: a process with an exit code, stdout and stderr."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Mapping
from contextlib import chdir, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Timer
from typing import Any

from tests.forked import Forked
from typer.testing import CliRunner

from tacit.cli import app

COMMAND = [sys.executable, "-m", "tacit"]


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def environment(**variables: str) -> dict[str, str]:
    return {**os.environ, "COLUMNS": "100", **variables}


def tacit(*arguments: str | Path, cwd: Path | None = None, **variables: str) -> Done:
    """A command in this process, without a terminal: quick."""
    path = list(sys.path)
    try:
        with chdir(cwd or "."):
            done = CliRunner().invoke(app, [*map(str, arguments)], env=variables)
    finally:
        sys.path[:] = path
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return Done(done.exit_code, done.stdout, done.stderr)


def tacit_process(*arguments: str | Path, cwd: Path | None = None, **variables: str) -> Done:
    """A command in a process of its own, without a terminal."""
    return end(start(*arguments, cwd=cwd, **variables))


def start(*arguments: str | Path, cwd: Path | None = None, **variables: str) -> Forked:
    """A command that goes on."""
    return Forked(["-m", "tacit", *arguments], cwd=cwd, env=environment(**variables))


def end(child: Forked) -> Done:
    """How it ended; it is killed if it does not."""
    try:
        out, err = child.communicate(timeout=600)
    finally:
        child.kill()
    assert child.returncode is not None
    return Done(child.returncode, out, err)


def in_terminal(
    *arguments: str | Path, cwd: Path | None = None, answers: Mapping[str, str] | None = None
) -> tuple[int, str]:
    """The exit code of a command, and all that it writes to a terminal of its own.

    answers: what somebody types when the terminal shows a text.
    """
    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        [*COMMAND, *map(str, arguments)],
        stdout=theirs,
        stderr=theirs,
        stdin=theirs,
        cwd=cwd,
        env=environment(TERM="xterm"),
        start_new_session=True,
    )
    os.close(theirs)
    watchdog = Timer(180, child.kill)
    watchdog.start()
    waiting, seen = dict(answers or {}), bytearray()
    with suppress(OSError), open(ours, "r+b", buffering=0) as terminal:  # an error is the end
        while part := terminal.read(4096):
            seen += part
            for shown in [text for text in waiting if text in seen.decode(errors="replace")]:
                terminal.write(waiting.pop(shown).encode())
    watchdog.cancel()
    return child.wait(timeout=600), seen.decode()
