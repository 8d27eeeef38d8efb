"""A job: a Python file whose `main(session)` all parties run, if it is the same at all."""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from ...errors import ConfigError
from .job_files import job_files
from .job_imports import JobImporter, importer_of, load_module


@dataclass(frozen=True)
class Job:
    """A Python file, the arguments of its `main`, and the contents of all files it consists of.

    `files` are what the parties compare and what runs, by path in the job's folder.
    """

    path: Path
    arguments: tuple[str, ...]
    files: Mapping[str, bytes]
    module_name: str

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def digests(self) -> dict[str, str]:
        """The SHA-256 of every file of the job, by path in its folder."""
        return {name: hashlib.sha256(content).hexdigest() for name, content in self.files.items()}

    @property
    def program(self) -> bytes:
        """The SHA-256 of the names and contents of all files."""
        return _digest(self.files)

    def main(self, session: Any) -> Any:
        """Returns what the job's `main` returns; pass this method to `tacit.run`."""
        importer = JobImporter(self.path.parent, dict(self.files), open=False)
        module = load_module(self.module_name, self.path, importer)
        return _entry(module, self)(session, *self.arguments)


def load_job(path: str | Path, arguments: Sequence[str] = ()) -> Job:
    """Returns the job in a file. It is imported, and may import files beside it.

    Raises ConfigError if there is no such file, it is not Python, or its `main` does not take the
    arguments. Errors that it raises during the import are not changed.
    """
    path = Path(path).resolve()
    files = job_files(path)
    if path.suffix != ".py":
        raise ConfigError("a file of Python is needed, its name ends in .py", subject=f"job {path}")
    place = hashlib.sha256(str(path).encode() + _digest(files)).hexdigest()[:16]
    importer = JobImporter(path.parent, files, open=True)
    module = load_module(f"tacit_job_{place}", path, importer)
    importer = importer_of(module)  # of the first time, if the module was loaded before
    importer.open = False
    job = Job(path, tuple(arguments), dict(sorted(importer.files.items())), module.__name__)
    _entry(module, job)
    return job


def _digest(files: Mapping[str, bytes]) -> bytes:
    digest = hashlib.sha256(b"tacit program v1\n")
    for name, content in sorted(files.items()):
        digest.update(json.dumps([name, hashlib.sha256(content).hexdigest()]).encode())
    return digest.digest()


def _entry(module: ModuleType, job: Job) -> Any:
    main = getattr(module, "main", None)
    if not callable(main):
        raise ConfigError(
            "it defines no main(session), which all parties run", subject=f"job {job.path}"
        )
    signature = inspect.signature(main)
    try:
        signature.bind(None, *job.arguments)
    except TypeError as error:
        line = getattr(getattr(main, "__code__", None), "co_firstlineno", 0)
        raise ConfigError(
            f"main{signature} cannot be called with a session and "
            f"{len(job.arguments)} arguments ({error}); what stands after -- are "
            "the arguments",
            subject=f"job {job.path}, line {line}",
        ) from error
    return main
