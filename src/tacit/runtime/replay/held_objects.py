"""Objects that a function reaches from its variables, and whether they hold what they held.

Looked at are the elements of containers and arrays, and the attributes of objects, classes and
files that the code names, whose methods that it names included. Objects of Python's library, of
torch, numpy and Tacit are not looked into.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from functools import cache
from hashlib import blake2b
from operator import is_
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from .buffers import equal_public

CONTAINERS = (list, tuple, dict, set, frozenset, deque)
BY_IDENTITY = (*CONTAINERS, Tensor)
FUNCTIONS = (FunctionType, BuiltinFunctionType, MethodType, type)
SKIPPED = (Tensor, Optimizer, LRScheduler, *FUNCTIONS[:3])
FOREIGN = frozenset((*sys.stdlib_module_names, "torch", "tacit", "numpy"))
NAMESPACES = frozenset(("types.SimpleNamespace", "argparse.Namespace"))
IMPLIED = ("__call__", "__getitem__", "__iter__", "__len__", "__next__", "forward")  # by syntax
MOST_OBJECTS = 128
MOST_ELEMENTS = 1024  # of a container; of a longer one, only its length is looked at
MOST_BYTES = 1 << 16  # of an array
MISSING = object()


class HeldObject:
    """What an object held at one time: elements, or the attributes of given names."""

    def __init__(self, holder: Any, names: frozenset[str]) -> None:
        self.holder, self._names = holder, names
        self._is_simple = _is_simple(holder)
        self._everything = self._current()
        self.children = _children(holder, names)

    def is_unchanged(self) -> bool:
        """Returns whether it holds the same. Mostly all are the same objects: that is fast."""
        if self._is_simple and identical(self._everything, self._current()):
            return True
        now = _children(self.holder, self._names)
        return len(now) == len(self.children) and all(map(unchanged, self.children, now))

    def _current(self) -> list[Any]:
        """Returns all that a simple object holds, to be compared by identity."""
        if not self._is_simple or isinstance(self.holder, CONTAINERS):
            return _children(self.holder, self._names)
        return [*vars(self.holder).values()]


def held_objects(roots: Iterable[Any], names: Iterable[str]) -> list[HeldObject]:
    """Returns the objects that code with these names reaches from roots, the nearest first."""
    roots, known = list(roots), frozenset(names)
    while True:
        found = _reached(roots, known)
        more = known.union(*(_names_of_methods(type(one.holder), known) for one in found))
        if more == known:
            return found
        known = more


def _reached(roots: Iterable[Any], names: frozenset[str]) -> list[HeldObject]:
    found: list[HeldObject] = []
    waiting, seen = deque(roots), set[int]()
    while waiting and len(found) < MOST_OBJECTS:
        one = waiting.popleft()
        if id(one) not in seen and _is_looked_into(one):
            found.append(HeldObject(one, names))
            waiting.extend(found[-1].children)
        seen.add(id(one))
    return found


def identical(before: Collection[Any], now: Collection[Any]) -> bool:
    """Whether all items are the same objects."""
    return len(before) == len(now) and all(map(is_, before, now))


def unchanged(a: Any, b: Any) -> bool:
    """Whether an item is the same object, or equal. Writes to tensors are found by the trace."""
    if a is b:
        return True
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(unchanged, a, b))
    return not isinstance(a, BY_IDENTITY) and equal_public(a, b)


def _is_looked_into(x: Any) -> bool:
    if isinstance(x, (*CONTAINERS, numpy.ndarray)):
        return True
    if isinstance(x, SKIPPED):
        return False
    kind = x if isinstance(x, type) else type(x)
    home = x.__name__ if isinstance(x, ModuleType) else kind.__module__
    is_own = home.partition(".")[0] not in FOREIGN
    return is_own or f"{kind.__module__}.{kind.__qualname__}" in NAMESPACES


def _is_simple(x: Any) -> bool:
    """Whether an object is a container, or has all of its attributes in its dict."""
    has_slots = any("__slots__" in vars(kind) for kind in type(x).__mro__)
    return isinstance(x, CONTAINERS) or (hasattr(x, "__dict__") and not has_slots)


def _children(x: Any, names: frozenset[str]) -> list[Any]:
    """Returns what an object holds, as far as the code names it."""
    if isinstance(x, numpy.ndarray):
        small = x.nbytes <= MOST_BYTES and not x.dtype.hasobject
        return [x.shape, blake2b(x.tobytes()).digest() if small else None]
    if isinstance(x, CONTAINERS):
        if len(x) > MOST_ELEMENTS:
            return [len(x)]
        return [*x.keys(), *x.values()] if isinstance(x, dict) else [*x]
    attributes = [*_attributes(x, names)]
    if isinstance(x, nn.Module):  # their parameters, buffers and modes are looked at apart
        return [value for value in attributes if not isinstance(value, Tensor | nn.Module)]
    return attributes


def _attributes(x: Any, names: frozenset[str]) -> Iterator[Any]:
    held = getattr(x, "__dict__", None)
    if held is not None:
        yield from (value for name, value in held.items() if name in names)
    for kind in type(x).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        slots = (slots,) if isinstance(slots, str) else slots
        yield from (getattr(x, name, MISSING) for name in slots if name in names)


def _names_of_methods(kind: type, names: frozenset[str]) -> frozenset[str]:
    """Returns the names in the methods and properties of a class that the code names."""
    found = [
        one
        for base in kind.__mro__
        if base.__module__.partition(".")[0] not in FOREIGN
        for name, one in vars(base).items()
        if name in names or name in IMPLIED
    ]
    codes = [code for one in found if (code := _code(one)) is not None]
    return frozenset(name for code in codes for name in code_names(code))


def _code(x: Any) -> CodeType | None:
    """Returns the code of a function, method or property, under decorators."""
    x = getattr(x, "fget", None) or getattr(x, "__func__", None) or x
    while (inner := getattr(x, "__wrapped__", None)) is not None:
        x = inner
    code = getattr(x, "__code__", None)
    return code if isinstance(code, CodeType) else None


@cache
def code_names(code: CodeType) -> tuple[str, ...]:
    """Returns the names and texts in code, or in code nested in it."""
    inner = [one for one in code.co_consts if isinstance(one, CodeType)]
    texts = [one for one in code.co_consts if isinstance(one, str) and one.isidentifier()]
    nested = (name for one in inner for name in code_names(one))
    return tuple(dict.fromkeys((*code.co_names, *texts, *nested)))
