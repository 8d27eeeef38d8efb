"""Errors of any kind, ours or not, for programs that show them and for other parties.

NOTE [what peers are told] The text of an error belongs to the party that raised it: it may hold a
path, a cell or a setting. Other parties get its type, or a text that stands in the source as it is:
the field `told`, whose value is always a literal (tests/policy checks that), the operating system's
words for an error number, and the reasons of `FileRejected`, which are written for all parties.
"""

from __future__ import annotations

import os
from typing import Any

from .base import Error
from .call_sites import Frame, frames_of, library_line, user_line
from .rendering import described, lines_text, rendered_fields, sentence


def lines_of(error: BaseException) -> tuple[Frame | None, Frame | None]:
    """Returns the user's line and the library's line that led to an error."""
    if isinstance(error, Error):
        return error.line, error.library_line
    frames = frames_of(error.__traceback__)
    return user_line(frames), library_line(frames)


def one_line(error: BaseException) -> str:
    """Returns what happened and where, without a traceback."""
    if isinstance(error, Error):
        return sentence(error, lines_of(error))
    where = "".join(f" ({text})" for text in lines_text(*lines_of(error)))
    return f"{described(error)}{where}"


def fields_of(error: BaseException) -> dict[str, Any]:
    """Returns every field as plain data; what is not known, or not ours, is None."""
    if isinstance(error, Error):
        return rendered_fields(error)
    stranger = Error(str(error))
    stranger.known_lines, stranger.__cause__ = lines_of(error), error.__cause__
    return {**rendered_fields(stranger), "kind": type(error).__name__}


def told_to_peers(error: BaseException) -> str:
    """Returns what other parties may know of an error; see NOTE [what peers are told]."""
    if isinstance(error, Error):
        return error.told or type(error).__name__
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno)
    return type(error).__name__
