"""The variables of a function: its closure, the globals that it names, and its defaults."""

from __future__ import annotations

from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Any
from weakref import WeakKeyDictionary

_names: WeakKeyDictionary[FunctionType, tuple[str, ...]] = WeakKeyDictionary()


def variables(function: FunctionType) -> Iterator[Any]:
    """Yields the values of a function's closure, the globals that it names, and its defaults."""
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # the cell is empty
            yield None
    scope = function.__globals__
    yield from [scope[name] for name in names_in(function) if name in scope]
    yield from function.__defaults__ or ()
    yield from (function.__kwdefaults__ or {}).values()


def names_in(function: FunctionType) -> tuple[str, ...]:
    """Returns the names and texts in the code of a function, or in code nested in it."""
    found = _names.get(function)
    if found is None:
        found = _names[function] = tuple(dict.fromkeys(_names_in_code(function.__code__)))
    return found


def _names_in_code(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from _names_in_code(one)
        elif isinstance(one, str) and one.isidentifier():
            yield one
