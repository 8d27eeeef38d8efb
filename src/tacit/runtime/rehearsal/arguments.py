"""The arguments of an operation: nests of lists, tuples and dicts, as torch passes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

NESTS = (list, tuple, dict)


def leaves(nest: Any) -> list[Any]:
    """Returns what is in a nest, in order."""
    found: list[Any] = []
    _add_leaves(nest, found)
    return found


def _add_leaves(nest: Any, found: list[Any]) -> None:
    if isinstance(nest, NESTS):
        for one in nest.values() if isinstance(nest, dict) else nest:
            _add_leaves(one, found)
    else:
        found.append(nest)


def changed(nest: Any, change: Callable[[Any], Any]) -> Any:
    """Returns a nest of the same form with everything in it changed."""
    if isinstance(nest, list | tuple):
        return [changed(one, change) for one in nest]
    if isinstance(nest, dict):
        return {name: changed(one, change) for name, one in nest.items()}
    return change(nest)
