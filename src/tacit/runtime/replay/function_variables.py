"""The variables of a function: its closure, the globals that it names, and its defaults."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from importlib.util import resolve_name
from operator import attrgetter
from types import FunctionType, ModuleType
from typing import Any

from .code_names import CodeNames, names_in
from .object_kinds import is_of_program

MISSING = object()
_contents = attrgetter("cell_contents")


class FunctionVariables:
    """The code of a function and its variables, which it looks up anew each time."""

    def __init__(self, function: FunctionType) -> None:
        self._function, self._names = function, names_in(function.__code__)
        self._is_of_program = is_of_program(function.__module__)

    def __call__(self) -> list[Any]:
        """Returns them now, always in the same order."""
        one, named = self._function, self._names.variables
        kept: Mapping[str, Any] = one.__builtins__  # type: ignore[attr-defined]
        found = [one.__code__, *_cells(one)]
        found += map(one.__globals__.get, named, [MISSING] * len(named))
        found += map(kept.get, named)
        found += one.__defaults__ or ()
        found += (one.__kwdefaults__ or {}).values()
        found += one.__dict__.values()
        if self._names.imports and self._is_of_program:
            found += _imported(self._names, one.__globals__)
        return found


def _cells(function: FunctionType) -> list[Any]:
    cells = function.__closure__ or ()
    try:
        return [*map(_contents, cells)]
    except ValueError:  # a cell is empty
        return [getattr(cell, "cell_contents", MISSING) for cell in cells]


def _imported(names: CodeNames, scope: Mapping[str, Any]) -> Iterator[ModuleType | None]:
    """Yields the files that a function imports, as far as somebody has imported them."""
    package = scope.get("__package__") or ""
    for name, level in names.imports:
        full = resolve_name("." * level + name, package) if level and package else name
        yield sys.modules.get(full.partition(".")[0] if not level else full)
        yield sys.modules.get(full)
