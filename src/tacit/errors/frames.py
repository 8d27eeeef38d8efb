"""Whose lines an error passed through: the user's, a library's, torch's or Tacit's.

Frames are looked at when an error is raised or shown, for its text alone.
"""

from __future__ import annotations

import linecache
import sys
import sysconfig
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import FrameType, TracebackType
from typing import NamedTuple

PACKAGE = Path(__file__).resolve().parents[1]
STANDARD = tuple({str(Path(sysconfig.get_path(key)).resolve()) for key in ("stdlib", "platstdlib")})
INSTALLED = ("site-packages", "dist-packages")
GENERATED = ("<frozen ", "<eval_with_key>", "<attrs generated")


class Frame(NamedTuple):
    """One line of a traceback. It holds no values, and can be sent to another process."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.short_file}:{self.line} in {self.function}"

    @property
    def source(self) -> str:
        """The line's text, or "" where its file cannot be read."""
        return linecache.getline(self.file, self.line).strip()

    @property
    def short_file(self) -> str:
        """A library's file below site-packages, a notebook's cell as such, else the file's name."""
        parts = Path(self.file).parts
        for folder in INSTALLED:
            if folder in parts:
                return "/".join(parts[parts.index(folder) + 1 :])
        if is_cell(self.file):
            return "the cell"
        return Path(self.file).name

    @property
    def owner(self) -> str:
        """Who wrote it: "user", "library", "torch", "tacit" or "python"."""
        return owner_of(self.file)


def is_cell(file: str) -> bool:
    """Whether this is the code of a notebook's cell."""
    return file.startswith("<ipython-input") or any(
        part.startswith("ipykernel_") for part in Path(file).parts
    )


def owner_of(file: str) -> str:
    """Whose file this is; see `Frame.owner`."""
    if file.startswith("<"):
        return "python" if file.startswith(GENERATED) else "user"
    path = Path(file).resolve()
    if path.is_relative_to(PACKAGE):
        return "tacit"
    if _is_torch(path):
        return "torch"
    if any(folder in path.parts for folder in INSTALLED):
        return "library"
    return "python" if str(path).startswith(STANDARD) else "user"


def _is_torch(path: Path) -> bool:
    file = getattr(sys.modules.get("torch"), "__file__", None)
    return file is not None and path.is_relative_to(Path(file).resolve().parent)


def frames_of(trace: TracebackType | None) -> tuple[Frame, ...]:
    """Returns the frames of a traceback, outermost first."""
    walked = traceback.walk_tb(trace)
    return tuple(_frame(frame, line) for frame, line in walked)


def running_frames() -> tuple[Frame, ...]:
    """Returns the frames that are running in this thread, outermost first."""
    found = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        found.append(_frame(frame, frame.f_lineno))
        frame = frame.f_back
    return tuple(reversed(found))


def _frame(frame: FrameType, line: int | None) -> Frame:
    return Frame(frame.f_code.co_filename, line or 0, frame.f_code.co_name)


def user_line(frames: Sequence[Frame]) -> Frame | None:
    """Returns the innermost frame of the user's own program."""
    return next((one for one in reversed(frames) if one.owner == "user"), None)


def library_line(frames: Sequence[Frame]) -> Frame | None:
    """Returns the innermost frame of a library that the user's line called."""
    for one in reversed(frames):
        if one.owner in ("library", "user"):
            return one if one.owner == "library" else None
    return None
