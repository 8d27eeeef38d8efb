"""The lines that led to an error, and who wrote them: the user, a library, torch or Tacit.

The stack is read here only when an error is raised or shown, and only for its text. The log of
calls (`ring/reference/call_log.py`) reads it at each call, for the line in a later error.
"""

from __future__ import annotations

import linecache
import sys
import sysconfig
import traceback
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from types import CodeType, FrameType, TracebackType
from typing import NamedTuple

PACKAGE = Path(__file__).resolve().parents[1]
STANDARD = tuple({str(Path(sysconfig.get_path(key)).resolve()) for key in ("stdlib", "platstdlib")})
INSTALLED = ("site-packages", "dist-packages")
GENERATED = ("<frozen ", "<eval_with_key>", "<attrs generated ")  # by Python, torch.fx, attrs


MOST_FILES = 4096
USERS_FILES: dict[str, bool] = {}  # whether a file is the user's


class Frame(NamedTuple):
    """One line of a traceback. It holds no values, and can be sent to another process.

    owner: who wrote it: "user", "library", "torch", "tacit" or "python".
    """

    file: str
    line: int
    function: str
    owner: str

    def __str__(self) -> str:
        return f"{self.short_file}:{self.line} in {self.function}"

    @property
    def source(self) -> str:
        """The text of the line; "" if the file cannot be read."""
        return linecache.getline(self.file, self.line).strip()

    @property
    def short_file(self) -> str:
        """The path below site-packages for a library, "the cell" for a notebook, else the name."""
        parts = Path(self.file).parts
        for folder in INSTALLED:
            if folder in parts:
                return "/".join(parts[parts.index(folder) + 1 :])
        if is_cell(self.file):
            return "the cell"
        return Path(self.file).name


def is_cell(file: str) -> bool:
    """Whether this is the code of a notebook's cell."""
    return file.startswith("<ipython-input") or any(
        part.startswith("ipykernel_") for part in Path(file).parts
    )


@lru_cache(maxsize=MOST_FILES)
def owner_of(file: str) -> str:
    """Returns whose file this is; see `Frame`."""
    path = Path(file).resolve()
    if path.is_relative_to(PACKAGE):
        return "tacit"
    folders = [folder for folder in INSTALLED if folder in path.parts]
    if folders:
        package = path.parts[path.parts.index(folders[0]) + 1]
        return "torch" if package == "torch" else "library"
    return "python" if str(path).startswith(STANDARD) else "user"


def owner_of_frame(frame: FrameType) -> str:
    """Returns whose frame this is. Code that a dataclass generates belongs to its module."""
    file = frame.f_code.co_filename
    if is_cell(file):
        return "user"
    if not file.startswith("<"):
        return owner_of(file)
    if file.startswith(GENERATED):
        return "python"
    module = sys.modules.get(frame.f_globals.get("__name__", ""))
    origin = getattr(module, "__file__", None)
    return "user" if origin is None else owner_of(origin)


def is_users_frame(frame: FrameType) -> bool:
    """Returns whether this is the user's program, and adds its file to `USERS_FILES`.

    A name such as <string> stands for code of many modules, and is not added.
    """
    file, users = frame.f_code.co_filename, owner_of_frame(frame) == "user"
    if not file.startswith("<") or file.startswith(GENERATED) or is_cell(file):
        if len(USERS_FILES) == MOST_FILES:
            USERS_FILES.clear()
        USERS_FILES[file] = users
    return users


def frames_of(trace: TracebackType | None) -> tuple[Frame, ...]:
    """Returns the frames of a traceback, outermost first."""
    walked = traceback.walk_tb(trace)
    return tuple(_frame(frame, line) for frame, line in walked)


def from_users_code(trace: TracebackType | None) -> TracebackType | None:
    """Returns a traceback without what led to the user's program, or the whole if it has none."""
    rest = trace
    while rest is not None and owner_of_frame(rest.tb_frame) != "user":
        rest = rest.tb_next
    return rest or trace


def shortened(trace: TracebackType | None) -> TracebackType | None:
    """Returns the user's lines of a traceback, or the whole if it has none.

    Of the libraries between two of them it has the innermost line.
    """
    kept: TracebackType | None = None
    library_follows = False
    for one in reversed(list(_entries(trace))):
        owner = owner_of_frame(one.tb_frame)
        if owner == "user" or (owner == "library" and not library_follows):
            kept = TracebackType(kept, one.tb_frame, one.tb_lasti, one.tb_lineno)
            library_follows = owner == "library"
    has_users_line = any(owner_of_frame(one.tb_frame) == "user" for one in _entries(kept))
    return kept if has_users_line else trace


def _entries(trace: TracebackType | None) -> Iterator[TracebackType]:
    while trace is not None:
        yield trace
        trace = trace.tb_next


def running_frames() -> tuple[Frame, ...]:
    """Returns the frames that are running in this thread, outermost first."""
    found = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        found.append(_frame(frame, frame.f_lineno))
        frame = frame.f_back
    return tuple(reversed(found))


def _frame(frame: FrameType, line: int | None) -> Frame:
    return Frame(frame.f_code.co_filename, line or 0, frame.f_code.co_name, owner_of_frame(frame))


Place = tuple[CodeType, int]  # a line of code: cheap to keep, and without references to values


def users_place() -> Place | None:
    """Returns the place in the user's program that runs now in this thread: quick."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        known = USERS_FILES.get(frame.f_code.co_filename)
        if is_users_frame(frame) if known is None else known:
            return frame.f_code, frame.f_lineno
        frame = frame.f_back
    return None


def frame_at(place: Place) -> Frame:
    """Returns a place of the user's program as one line of a traceback."""
    code, line = place
    return Frame(code.co_filename, line, code.co_name, "user")


def user_line(frames: Sequence[Frame]) -> Frame | None:
    """Returns the innermost frame of the user's own program."""
    return next((one for one in reversed(frames) if one.owner == "user"), None)


def library_line(frames: Sequence[Frame]) -> Frame | None:
    """Returns the innermost frame of a library that the user's line called."""
    for one in reversed(frames):
        if one.owner in ("library", "user"):
            return one if one.owner == "library" else None
    return None
