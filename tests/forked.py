"""Python programs in processes that start in milliseconds, without importing torch again.

A fork server imports torch and Tacit once; each program is a fork of it with its own folder,
environment, output and exit code. Tests of the start itself use `subprocess`.
"""

from __future__ import annotations

import ctypes
import os
import runpy
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from multiprocessing import forkserver, get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from subprocess import TimeoutExpired
from typing import Any

from tacit.runtime.launch import child_process

CONTEXT = get_context("forkserver")
# torch's first optimizer imports its compiler, which takes as long as torch itself.
CONTEXT.set_forkserver_preload(
    ["tacit.runtime", "tacit.nn", "tacit.cli", "torch._dynamo", "tests.runtime.parties"]
)


class Parties:
    """Processes of parties and workers as forks; stands for a context of multiprocessing."""

    Pipe = staticmethod(CONTEXT.Pipe)

    of_a_program = False  # they write to the files to which the program writes

    @classmethod
    def Process(cls, target: Callable[..., None], args: Sequence[Any], name: str) -> BaseProcess:
        """A process with this one's environment, as an interpreter would have it."""
        files = [os.readlink(f"/proc/self/fd/{n}") for n in (1, 2)] if cls.of_a_program else []
        return CONTEXT.Process(
            target=_in_environment, args=(dict(os.environ), files, target, *args), name=name
        )


def _in_environment(
    variables: Mapping[str, str], files: Sequence[str], target: Callable[..., None], *args: Any
) -> None:
    os.environ.clear()
    os.environ.update(variables)
    _write_to(files)
    target(*args)


def _write_to(files: Sequence[str]) -> None:
    """Makes the files stdout and stderr of this process; without files they stay as they are."""
    for number, file in enumerate(files, 1):
        opened = os.open(file, os.O_WRONLY | os.O_APPEND)
        os.dup2(opened, number)
        os.close(opened)


class Forked:
    """A running program, with the part of subprocess.Popen that tests need.

    `arguments` are a script's path and its arguments, or "-m", a module and its arguments. It
    writes to `files`, for stdout and stderr, or to temporary ones. It is on the host of the process
    `host`: in its user and network namespaces.
    """

    def __init__(
        self,
        arguments: Sequence[str | Path],
        *,
        cwd: str | Path | None = None,
        env: Mapping[str, str] | None = None,
        warnings_are_errors: bool = False,
        files: Sequence[Path] = (),
        host: int | None = None,
    ) -> None:
        self.args = [*map(str, arguments)]
        self._folder = ExitStack()
        if not files:
            folder = Path(self._folder.enter_context(tempfile.TemporaryDirectory()))
            files = folder / "stdout", folder / "stderr"
        self._files = files
        for file in self._files:
            file.write_bytes(b"")
        self._process = CONTEXT.Process(
            target=_run_program,
            args=(
                self.args,
                str(Path(cwd or ".").resolve()),
                dict(os.environ if env is None else env),
                [*map(str, self._files)],
                warnings_are_errors,
                host,
                _server_address(),
            ),
        )
        self._process.start()

    @property
    def pid(self) -> int:
        assert self._process.pid
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self.returncode

    def wait(self) -> None:
        self._process.join()

    def send_signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        self._process.kill()

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """What the program wrote to stdout and stderr, once it has ended."""
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise TimeoutExpired(self.args, timeout or 0)
        out, err = (file.read_text() for file in self._files)
        self._folder.close()
        return out, err


def run(
    arguments: Sequence[str | Path],
    *,
    cwd: str | Path | None = None,
    env: Mapping[str, str] | None = None,
    warnings_are_errors: bool = False,
    timeout: float = 600,
) -> tuple[int, str, str]:
    """The exit code of a program, and what it wrote to stdout and stderr."""
    program = Forked(arguments, cwd=cwd, env=env, warnings_are_errors=warnings_are_errors)
    try:
        out, err = program.communicate(timeout)
    finally:
        program.kill()
    assert program.returncode is not None
    return program.returncode, out, err


def _run_program(
    arguments: list[str],
    cwd: str,
    env: dict[str, str],
    files: Sequence[str],
    warnings_are_errors: bool,
    host: int | None,
    server: str,
) -> None:
    """Runs in the new process, as the interpreter would run `arguments`."""
    if host is None:
        _fork_parties(server)
    else:
        _enter(host)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    _write_to(files)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if warnings_are_errors:
        warnings.simplefilter("error")
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        sys.path[0] = cwd
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        sys.path[0] = str(Path(arguments[0]).parent.resolve())
        runpy.run_path(arguments[0], run_name="__main__")


def _server_address() -> str:
    forkserver.ensure_running()
    return forkserver._forkserver._forkserver_address


def _fork_parties(server: str) -> None:
    """Lets the parties that this program starts be forks of the server that it was forked from."""
    Parties.of_a_program = True
    forkserver._forkserver._forkserver_address = server
    forkserver._forkserver.ensure_running = lambda: None
    child_process.get_context = lambda _: Parties


def _enter(host: int) -> None:
    """As `nsenter` does; this process has one thread."""
    setns = ctypes.CDLL(None, use_errno=True).setns
    for kind in ("user", "net"):
        with open(f"/proc/{host}/ns/{kind}") as namespace:
            if setns(namespace.fileno(), 0):
                raise OSError(ctypes.get_errno(), f"cannot enter the {kind} namespace")
