"""A function with modules and tensors of its own, for a party that is a thread.

CrypTen's parties are processes: each begins with a copy of what its program has made before. A
thread shares it with the others, and `encrypt` of a module would be one for all of them.
"""

from __future__ import annotations

from copy import deepcopy
from types import CellType, CodeType, FunctionType
from typing import Any

from torch import Tensor, nn

from ..nn import Module


class OwnCopies:
    """The copies of one party. What is one object for the program is one in its copies, too."""

    def __init__(self) -> None:
        self._copies: dict[int, Any] = {}
        self._functions: dict[FunctionType, FunctionType] = {}
        self._globals: dict[str, Any] = {}

    def value(self, value: Any) -> Any:
        """Returns a copy of arguments."""
        return deepcopy(value, self._copies)

    def function(self, function: FunctionType) -> FunctionType:
        """Returns the function with copies of the modules and tensors that it refers to.

        Functions of the same file that it calls get the same copies.
        """
        if function in self._functions:
            return self._functions[function]
        held = function.__globals__
        self._globals = self._globals or dict(held)
        cells = tuple(CellType() for _ in function.__closure__ or ())
        made = FunctionType(
            function.__code__, self._globals, function.__name__, function.__defaults__, cells
        )
        made.__kwdefaults__ = function.__kwdefaults__
        self._functions[function] = made
        for name in _names(function.__code__) & held.keys():
            self._globals[name] = self._own(held[name], held)
        for cell, given in zip(cells, function.__closure__ or (), strict=True):
            if _is_filled(given):
                cell.cell_contents = self._own(given.cell_contents, held)
        return made

    def _own(self, value: Any, held: dict[str, Any]) -> Any:
        if isinstance(value, FunctionType) and value.__globals__ is held:
            return self.function(value)
        is_copied = isinstance(value, nn.Module | Module)
        is_copied = is_copied or (isinstance(value, Tensor) and value.is_leaf)
        return self.value(value) if is_copied else value


def _names(code: CodeType) -> set[str]:
    """Returns the names that a function, and those inside of it, look up outside."""
    inner = (one for one in code.co_consts if isinstance(one, CodeType))
    return set(code.co_names).union(*map(_names, inner))


def _is_filled(cell: CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True
