"""Where in a model an operation failed: its module and the lines that ran.

The stack is walked when an error is raised, so an operation that works costs nothing.
"""

from __future__ import annotations

import sys
from types import CodeType
from typing import Any, TypeVar

from torch import nn
from torch._ops import OpOverload

from ..errors import Error

E = TypeVar("E", bound=Error)
# What to do where a library looks at values, by the beginning of its file's path.
REMEDIES = {
    "torchmetrics/": "tacit.metrics computes on secrets; torchmetrics takes what was revealed",
    "transformers/masking_utils.py": "give a secret attention_mask for all pairs of tokens: "
    "mask[:, None, None, :].expand(batch, 1, length, length) == 1",
}
CALL: CodeType = nn.Module._call_impl.__code__


def running_modules() -> list[nn.Module]:
    """Returns the modules whose calls are running in this thread, innermost first."""
    found: list[nn.Module] = []
    frame: Any = sys._getframe(1)
    while frame is not None:
        if frame.f_code is CALL:
            found.append(frame.f_locals["self"])
        frame = frame.f_back
    return found


def module_path() -> str | None:
    """Returns the path of the innermost running module in the outermost; None if none runs."""
    running = running_modules()
    if not running:
        return None
    paths = {id(part): path for path, part in running[-1].named_modules()}
    return next(paths[id(part)] for part in running if id(part) in paths)


def name_place(error: E, func: OpOverload | None = None) -> E:
    """Sets the operator `func`, the module and the lines of an error, unless it has them.

    Returns the error.
    """
    if error.op is None and func is not None:
        error.op = str(func)
    running = running_modules()
    if error.path is None and running:
        error.path = module_path()
        error.module, error.model = type(running[0]).__name__, type(running[-1]).__name__
    error.locate()
    file = error.library_line.short_file if error.library_line else ""
    found = (remedy for start, remedy in REMEDIES.items() if file.startswith(start))
    error.remedy = next(found, error.remedy)
    return error
