"""The modules of the user's own program: those that are neither libraries nor Tacit."""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path

PACKAGE = Path(__file__).parents[2]
STANDARD_LIBRARY = Path(sysconfig.get_paths()["stdlib"])
LIBRARY_FOLDERS = {"site-packages", "dist-packages"}
SCRIPT = "__main__"


def user_modules(program: bytes) -> dict[str, str]:
    """Returns the files of all such modules that are imported now, by their names.

    The script itself is among them if the packed `program` needs it.
    """
    found = {}
    for name, module in sorted(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if not isinstance(file, str) or not file.endswith(".py") or name == "__mp_main__":
            continue
        path = Path(file).absolute()
        is_needed = name != SCRIPT or SCRIPT.encode() in program
        if is_needed and path.is_file() and not _is_library(path):
            found[name] = str(path)
    return found


def _is_library(path: Path) -> bool:
    """Whether a file, or what it is a link to, is of Tacit, Python or an installed library."""
    places = {path, path.resolve()}
    return any(
        place.is_relative_to(folder) or LIBRARY_FOLDERS & {*place.parts}
        for place in places
        for folder in (PACKAGE, STANDARD_LIBRARY, STANDARD_LIBRARY.resolve())
    )
