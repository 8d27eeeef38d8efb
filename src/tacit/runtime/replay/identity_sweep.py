"""Whether objects hold the very objects that they held, found in a few passes over all of them.

No code of Python runs between two items of a pass, so that a thousand of them take some ten
microseconds. A number that was computed again is another object: look closer at a difference.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain
from operator import attrgetter, is_
from types import CellType
from typing import Any

_flat = chain.from_iterable
_dict_of = attrgetter("__dict__")
_content_of = attrgetter("cell_contents")
MISSING = object()
_END = object()


def content_if_any(cell: CellType) -> Any:
    """Returns what a variable of an enclosing function holds, or that it has no value yet."""
    try:
        return cell.cell_contents
    except ValueError:
        return MISSING


def _contents(cell: CellType) -> list[Any]:
    return [content_if_any(cell)]


class IdentitySweep:
    """What had been added, and what it held when `take` was called last."""

    def __init__(self) -> None:
        self._known = set[Any]()
        self._objects: list[Any] = []
        self._dicts: list[dict[Any, Any]] = []
        self._sequences: list[Collection[Any]] = []
        self._cells: list[CellType] = []
        self._attributes: dict[tuple[str, ...], list[Any]] = {}
        self._scopes: dict[int, tuple[Mapping[str, Any], dict[str, None]]] = {}
        self._others: list[Callable[[], Iterable[Any]]] = []
        self._sizes: list[int] = []
        self._held: list[Any] = []

    def add_object(self, x: Any) -> None:
        """Adds the class of an object, and all attributes in its dict."""
        if self._is_new(x, "object"):
            self._objects.append(x)

    def add_mapping(self, x: Mapping[Any, Any]) -> None:
        """Adds all keys and values."""
        if not self._is_new(x, "mapping"):
            return
        if isinstance(x, dict):
            self._dicts.append(x)
        else:
            self.add_other(lambda: [*x, *x.values()])

    def add_elements(self, x: Collection[Any]) -> None:
        """Adds all elements of a container."""
        if self._is_new(x, "elements"):
            self._sequences.append(x)

    def add_cells(self, cells: Iterable[CellType]) -> None:
        """Adds what variables of enclosing functions hold."""
        for cell in cells:
            if content_if_any(cell) is MISSING:
                self.add_other(partial(_contents, cell))
            else:
                self._cells.append(cell)

    def add_attributes(self, x: Any, *names: str) -> None:
        """Adds two or more attributes, which the object must have."""
        if self._is_new(x, names):
            self._attributes.setdefault(names, []).append(x)

    def add_names(self, scope: Mapping[str, Any], names: Iterable[str]) -> None:
        """Adds what names mean in a scope, if anything."""
        self._scopes.setdefault(id(scope), (scope, {}))[1].update(dict.fromkeys(names))

    def add_other(self, parts: Callable[[], Iterable[Any]]) -> None:
        """Adds what a function returns, which is slower."""
        self._others.append(parts)

    def _is_new(self, x: Any, role: Any) -> bool:
        size = len(self._known)
        self._known.add((id(x), role))
        return len(self._known) > size

    def take(self) -> None:
        """Notes what they hold now."""
        dicts = self._all_dicts()
        self._sizes, self._held = self._sizes_of(dicts), [*self._items(dicts)]

    def is_same(self) -> bool:
        """Returns whether they hold the same objects in the same order."""
        try:
            dicts = self._all_dicts()
            same_sizes = self._sizes == self._sizes_of(dicts)
            return same_sizes and all(map(is_, self._held, self._items(dicts)))
        except (AttributeError, RuntimeError, ValueError):  # one is gone, or changes now
            return False

    def _all_dicts(self) -> list[dict[Any, Any]]:
        return [*map(_dict_of, self._objects), *self._dicts]

    def _sizes_of(self, dicts: list[dict[Any, Any]]) -> list[int]:
        return [*map(len, dicts), *map(len, self._sequences)]

    def _items(self, dicts: list[dict[Any, Any]]) -> Iterator[Any]:
        dicts = [*filter(None, dicts)]
        named = [map(scope.get, names) for scope, names in self._scopes.values()]
        attributes = [_flat(map(attrgetter(*x), held)) for x, held in self._attributes.items()]
        return chain(
            map(type, self._objects),
            _flat(dicts),
            _flat(map(dict.values, dicts)),
            _flat(self._sequences),
            map(_content_of, self._cells),
            *attributes,
            *named,
            *[parts() for parts in self._others],
            (_END,),  # or there may be more now
        )
