"""The modules of the user's own program: those that are neither libraries nor Tacit."""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path

PACKAGE = Path(__file__).parents[2]
STANDARD_LIBRARY = Path(sysconfig.get_paths()["stdlib"]).resolve()
LIBRARY_FOLDERS = {"site-packages", "dist-packages"}
SCRIPT = "__main__"


def user_modules(program: bytes) -> dict[str, str]:
    """Returns the files of all such modules that are imported now, by their names.

    The script itself is among them if the packed `program` needs it. A module that Python would not
    find by its name is left out.
    """
    found = {}
    for name, module in sys.modules.items():
        file = getattr(module, "__file__", None)
        if file and not _is_library(Path(file)) and (name != SCRIPT or SCRIPT.encode() in program):
            found[name] = str(Path(file).absolute())
    return dict(sorted(found.items() & own_files(found).items()))


def own_files(names: Iterable[str]) -> dict[str, str]:
    """Returns the files that this process imports under these names, where there are any."""
    files = {name: _own_file(name) for name in names}
    return {name: str(file.absolute()) for name, file in files.items() if file is not None}


def _own_file(name: str) -> Path | None:
    """Returns the file of a module: that of the running script, or the first in Python's path."""
    if name == SCRIPT:
        file = getattr(sys.modules[SCRIPT], "__file__", None)
        return None if file is None else Path(file)
    inside = Path(*name.split("."))
    for folder in map(Path, sys.path):
        for file in (folder / inside / "__init__.py", folder / inside.with_suffix(".py")):
            if file.is_file():
                return file
    return None


def _is_library(file: Path) -> bool:
    """Whether a file, or what it is a link to, is of Tacit, Python or an installed library."""
    return _is_among_libraries(file) or _is_among_libraries(file.resolve())


def _is_among_libraries(file: Path) -> bool:
    folders = (PACKAGE, STANDARD_LIBRARY)
    return not LIBRARY_FOLDERS.isdisjoint(file.parts) or any(map(file.is_relative_to, folders))
