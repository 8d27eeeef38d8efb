"""A job: a Python file whose `main(session)` all parties run, if it is the same at all."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import inspect
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from pathlib import Path
from threading import Lock
from types import CodeType, ModuleType
from typing import Any

from ...errors import ConfigError

_loading = Lock()


@dataclass(frozen=True)
class Job:
    """A Python file, the arguments of its `main`, and the digest of all files it consists of."""

    path: Path
    arguments: tuple[str, ...]
    program: bytes

    @property
    def name(self) -> str:
        return self.path.stem

    def main(self, session: Any) -> Any:
        """Returns what the job's `main` returns; pass this method to `tacit.run`."""
        return _entry(_module(self), self)(session, *self.arguments)


def load_job(path: str | Path, arguments: Sequence[str] = ()) -> Job:
    """Returns the job in a file. It is imported, and may import files beside it.

    Raises ConfigError if there is no such file, it is not Python, or its `main` does not take the
    arguments. Errors that it raises during the import are not changed.
    """
    path = Path(path).resolve()
    job = Job(path, tuple(arguments), _digest(path))
    _entry(_module(job), job)
    return job


def _digest(path: Path) -> bytes:
    """Returns the SHA-256 of the names and contents of a job's files."""
    digest = hashlib.sha256(b"tacit program v1\n")
    for file, content in program_files(path).items():
        digest.update(json.dumps([file, hashlib.sha256(content).hexdigest()]).encode())
    return digest.digest()


class _SourceLoader(SourceFileLoader):
    """Compiles the source, never a cached file: that may be older, and its digest is not compared.

    Python takes a cached file for the source's if size and second of the last change agree.
    """

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.get_data(self.path), self.path)


def _module(job: Job) -> ModuleType:
    """Returns the module of a job; imports it once per process, and again after a change."""
    path = job.path
    name = f"tacit_job_{hashlib.sha256(str(path).encode() + job.program).hexdigest()[:16]}"
    with _loading:
        if name in sys.modules:
            return sys.modules[name]
        if str(path.parent) not in sys.path:
            sys.path.insert(0, str(path.parent))
        if path.suffix != ".py":
            raise ConfigError(
                "a file of Python is needed, its name ends in .py", subject=f"job {path}"
            )
        loader = _SourceLoader(name, str(path))
        spec = importlib.util.spec_from_loader(name, loader)
        assert spec is not None
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        try:
            loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
        return module


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


# Files of a program -------------------------------------------------------------------------------


def program_files(path: Path) -> dict[str, bytes]:
    """Returns the contents of a Python file and of all that it imports from its folder, by path.

    Imports are read from the source, wherever they stand in it; imports under a computed name are
    not found.
    """
    folder = path.parent
    contents: dict[str, bytes] = {}
    waiting = [path]
    while waiting:
        file = waiting.pop()
        name = file.relative_to(folder).as_posix()
        if name not in contents:
            contents[name] = _read(file)
            waiting += _imported(file, contents[name], folder)
    return dict(sorted(contents.items()))


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise ConfigError(f"job {file} cannot be read: {error.strerror}") from error


def _imported(file: Path, content: bytes, folder: Path) -> Iterator[Path]:
    """Yields the files of the folder that a file imports, with the packages above them."""
    try:
        tree = ast.parse(content)
    except SyntaxError as error:
        raise ConfigError(f"{error.msg}", subject=f"job {file}, line {error.lineno}") from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise ConfigError(
            f"it is not Python ({str(error)[:100]})", subject=f"job {file}"
        ) from error
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _files(folder, alias.name.split("."))
        elif isinstance(node, ast.ImportFrom):
            base = file.parents[node.level - 1] if 0 < node.level <= len(file.parents) else folder
            module = node.module.split(".") if node.module else []
            for alias in node.names:
                found = _files(base, [*module, alias.name])
                yield from (one for one in found if one.is_relative_to(folder))


def _files(base: Path, parts: list[str]) -> Iterator[Path]:
    """Yields the files of this dotted name and of the packages that contain it."""
    for count in range(1, len(parts) + 1):
        place = base.joinpath(*parts[:count])
        for file in (place / "__init__.py", place.with_name(f"{place.name}.py")):
            if file.is_file():
                yield file
