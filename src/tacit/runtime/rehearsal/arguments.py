"""The arguments of an operation: nests of lists, tuples and dicts, as torch passes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any


def leaves(nest: Any) -> Iterator[Any]:
    """Yields what is in a nest, in order."""
    if isinstance(nest, list | tuple):
        for one in nest:
            yield from leaves(one)
    elif isinstance(nest, dict):
        yield from leaves(list(nest.values()))
    else:
        yield nest


def changed(nest: Any, change: Callable[[Any], Any]) -> Any:
    """Returns a nest of the same form with everything in it changed."""
    if isinstance(nest, list | tuple):
        return [changed(one, change) for one in nest]
    if isinstance(nest, dict):
        return {name: changed(one, change) for name, one in nest.items()}
    return change(nest)
