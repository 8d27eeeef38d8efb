"""The modules of the user's own program: those that are neither libraries nor Tacit."""

from __future__ import annotations

import site
import sys
import sysconfig
from pathlib import Path

PACKAGE = Path(__file__).parents[2]
SCRIPT = "__main__"


def user_modules(program: bytes) -> dict[str, str]:
    """Returns the files of all such modules that are imported now, by their names.

    The script itself is among them if the packed `program` needs it.
    """
    libraries = [PACKAGE, *map(Path, {*_library_folders(), *site.getsitepackages()})]
    libraries = [folder.resolve() for folder in libraries]
    found = {}
    for name, module in sorted(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if not isinstance(file, str) or not file.endswith(".py") or name == "__mp_main__":
            continue
        path = Path(file).resolve()
        is_library = any(path.is_relative_to(folder) for folder in libraries)
        if path.is_file() and not is_library and (name != SCRIPT or SCRIPT.encode() in program):
            found[name] = str(path)
    return found


def _library_folders() -> list[str]:
    paths = sysconfig.get_paths()
    return [paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")]
