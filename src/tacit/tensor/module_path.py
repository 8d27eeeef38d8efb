"""Where in a model an operation was called: asked when it fails, so it costs nothing before."""

from __future__ import annotations

import sys
from types import CodeType
from typing import Any, TypeVar

from torch import nn

from ..errors import Error

E = TypeVar("E", bound=Error)
CALL: CodeType = nn.Module._call_impl.__code__


def running_modules() -> list[nn.Module]:
    """The modules whose calls are running in this thread, innermost first."""
    found: list[nn.Module] = []
    frame: Any = sys._getframe(1)
    while frame is not None:
        if frame.f_code is CALL:
            found.append(frame.f_locals["self"])
        frame = frame.f_back
    return found


def module_path() -> str | None:
    """The path of the innermost running module in the outermost, or None outside of modules."""
    running = running_modules()
    if not running:
        return None
    paths = {id(part): path for path, part in running[-1].named_modules()}
    return next(paths[id(part)] for part in running if id(part) in paths)


def name_module(error: E) -> E:
    """The error, with the module in which it happened, unless it is known already."""
    running = running_modules()
    if error.path is not None or not running:
        return error
    error.path = module_path()
    place = f"{error.path!r}, a {type(running[0]).__name__}" if error.path else "the module itself"
    error.args = (f"{error.args[0]} (in {type(running[-1]).__name__}: {place})", *error.args[1:])
    return error
