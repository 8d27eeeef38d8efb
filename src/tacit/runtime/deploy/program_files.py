"""Which files a program consists of: itself and what it imports from its folder."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from ...errors import ConfigError


def program_files(path: Path) -> dict[str, bytes]:
    """The content of a file of Python and of all that it imports from its folder, by path there.

    Imports are read from the text, wherever they stand in it; what a program imports under a
    computed name is not found.
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
    """The files in the folder that one of them imports, packages above them included."""
    try:
        tree = ast.parse(content)
    except SyntaxError as error:
        raise ConfigError(f"job {file}, line {error.lineno}: {error.msg}") from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise ConfigError(f"job {file}: it is not Python ({str(error)[:100]})") from error
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
    """The module of this dotted name and the packages that hold it, as far as they are files."""
    for count in range(1, len(parts) + 1):
        place = base.joinpath(*parts[:count])
        for file in (place / "__init__.py", place.with_name(f"{place.name}.py")):
            if file.is_file():
                yield file
