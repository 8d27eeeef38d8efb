"""A job: a file of Python whose `main(session)` all parties run, once they agree that it is one."""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from types import ModuleType
from typing import Any

from ...errors import ConfigError
from .program_files import program_files

_loading = Lock()


@dataclass(frozen=True)
class Job:
    """A file of Python, the arguments of its `main`, and the digest of all that it consists of."""

    path: Path
    arguments: tuple[str, ...]
    program: bytes

    @property
    def name(self) -> str:
        return self.path.stem

    def main(self, session: Any) -> Any:
        """What the job's `main` returns; this is what to give to `tacit.run`."""
        return _entry(_module(self), self)(session, *self.arguments)


def load_job(path: str | Path, arguments: Sequence[str] = ()) -> Job:
    """The job in a file. It is imported, and may import what lies beside it.

    ConfigError if there is no such file, it is not Python, or its `main` does not take the
    arguments; what it raises by itself while it is imported comes out as it is.
    """
    path = Path(path).resolve()
    job = Job(path, tuple(arguments), _digest(path))
    _entry(_module(job), job)
    return job


def _digest(path: Path) -> bytes:
    """SHA-256 of the names and contents of a job's files."""
    digest = hashlib.sha256(b"tacit program v1\n")
    for file, content in program_files(path).items():
        digest.update(json.dumps([file, hashlib.sha256(content).hexdigest()]).encode())
    return digest.digest()


def _module(job: Job) -> ModuleType:
    """The module of a job, which is imported once in a process, and again after a change."""
    path = job.path
    name = f"tacit_job_{hashlib.sha256(str(path).encode() + job.program).hexdigest()[:16]}"
    with _loading:
        if name in sys.modules:
            return sys.modules[name]
        if str(path.parent) not in sys.path:
            sys.path.insert(0, str(path.parent))
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise ConfigError(f"job {path}: a file of Python is needed, its name ends in .py")
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
        return module


def _entry(module: ModuleType, job: Job) -> Any:
    main = getattr(module, "main", None)
    if not callable(main):
        raise ConfigError(f"job {job.path}: it defines no main(session), which all parties run")
    signature = inspect.signature(main)
    try:
        signature.bind(None, *job.arguments)
    except TypeError as error:
        line = getattr(getattr(main, "__code__", None), "co_firstlineno", 0)
        raise ConfigError(
            f"job {job.path}, line {line}: main{signature} cannot be called with a session and "
            f"{len(job.arguments)} arguments ({error}); what stands after -- are the arguments"
        ) from error
    return main
