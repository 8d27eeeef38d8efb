"""The variables of a function: its closure, the globals that it names, and its defaults."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib.util import resolve_name
from types import FunctionType, ModuleType
from typing import Any

from .code_names import names_in
from .identity_sweep import MISSING, IdentitySweep, content_if_any
from .object_kinds import is_of_program


class FunctionVariables:
    """The code of a function and its variables, which it looks up anew each time."""

    def __init__(self, function: FunctionType) -> None:
        self._function, self._names = function, names_in(function.__code__)
        self._is_of_program = is_of_program(function.__module__)

    def __call__(self) -> list[Any]:
        """Returns them now, always in the same order."""
        one, named = self._function, self._names.variables
        found = [one.__code__, *map(content_if_any, one.__closure__ or ())]
        found += map(one.__globals__.get, named, [MISSING] * len(named))
        found += map(_builtins(one).get, named)
        found += one.__defaults__ or ()
        found += (one.__kwdefaults__ or {}).values()
        found += one.__dict__.values()
        return found + self._imported()

    def add_to(self, sweep: IdentitySweep) -> None:
        """Adds them to what is compared by identity."""
        one, named = self._function, self._names.variables
        sweep.add_attributes(one, "__code__", "__defaults__", "__kwdefaults__", "__dict__")
        sweep.add_cells(one.__closure__ or ())
        sweep.add_names(one.__globals__, named)
        sweep.add_names(_builtins(one), named)
        for held in (one.__kwdefaults__ or {}, one.__dict__):
            sweep.add_mapping(held)
        if self._names.imports and self._is_of_program:
            sweep.add_other(self._imported)

    def _imported(self) -> list[ModuleType | None]:
        """Returns the files that a function imports, as far as somebody has imported them."""
        if not self._is_of_program:
            return []
        found, package = list[str](), self._function.__globals__.get("__package__") or ""
        for name, level in self._names.imports:
            full = resolve_name("." * level + name, package) if level and package else name
            found += full.partition(".")[0] if not level else full, full
        return [sys.modules.get(name) for name in found]


def _builtins(function: Any) -> Mapping[str, Any]:
    held: Mapping[str, Any] = function.__builtins__
    return held
