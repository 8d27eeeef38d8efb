"""Errors of any kind, ours or not, for programs that show them: a line of text, or all fields."""

from __future__ import annotations

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
