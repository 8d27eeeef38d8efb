"""The files of a job: a Python file and what it imports by name from its folder."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from ...errors import ConfigError

TACIT = Path(__file__).parents[2]  # compared by its version


def job_files(path: Path) -> dict[str, bytes]:
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
            contents[name] = read_source(file)
            waiting += _imported(file, contents[name], folder)
    return contents


def read_source(file: Path) -> bytes:
    """Returns the bytes of a file of a job."""
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
            if file.is_file() and not file.is_relative_to(TACIT):
                yield file
