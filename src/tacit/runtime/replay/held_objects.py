"""Objects that a function reaches from its variables, and whether they hold what they held.

Looked at are the elements of containers and arrays, the variables of functions and methods, and the
attributes of objects, classes and files that the code of those functions names. Objects of Python's
library, of torch, numpy and Tacit are not looked into, but for those that hold others.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from contextvars import ContextVar
from functools import cached_property, partial
from hashlib import blake2b
from operator import is_
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from .buffers import equal_public
from .function_variables import names_in, variables

CONTAINERS = (list, tuple, dict, set, frozenset, deque)
BY_IDENTITY = (*CONTAINERS, Tensor)
FUNCTIONS = (FunctionType, BuiltinFunctionType, MethodType, type)
SKIPPED = (Tensor, Optimizer, LRScheduler)
HOLDERS = (
    *(MethodType, BuiltinFunctionType, staticmethod, classmethod),
    *(property, cached_property, partial, ContextVar),
)
FOREIGN = frozenset((*sys.stdlib_module_names, "torch", "tacit", "numpy"))
NAMESPACES = frozenset(("types.SimpleNamespace", "argparse.Namespace", "_thread._local"))
DRAWING = ("random", "numpy")  # files that hold generators, in numpy too
WRAPPED = "__wrapped__"  # what a decorator calls
IMPLIED = ("__call__", "__getitem__", "__iter__", "__len__", "__next__", "forward")  # by syntax
MOST_OBJECTS = 256
MOST_ELEMENTS = 1024  # of a container; of a longer one, only its length is looked at
MOST_BYTES = 1 << 16  # of an array
MISSING = object()


class HeldObject:
    """What an object held at one time: elements, or the attributes of given names."""

    def __init__(self, holder: Any, names: frozenset[str]) -> None:
        self.holder, self._names = holder, names
        self._has_only_dict = _has_only_dict(holder)
        self._everything = self._current()
        self.children = _children(holder, names)

    def is_unchanged(self) -> bool:
        """Returns whether it holds the same. Mostly all are the same objects: that is fast."""
        if identical(self._everything, self._current()):
            return True
        now = _children(self.holder, self._names)
        return len(now) == len(self.children) and all(map(unchanged, self.children, now))

    def _current(self) -> list[Any]:
        """Returns all that an object holds, to be compared by identity."""
        if self._has_only_dict:
            return [*vars(self.holder).values()]
        return _children(self.holder, self._names)


def held_objects(roots: Iterable[Any]) -> list[HeldObject]:
    """Returns the objects that functions among roots, or reached from them, name."""
    roots, names = list(roots), frozenset[str]()
    while True:
        found = _reached(roots, names)
        more = names.union(*(_names(one.holder) for one in found))
        if more == names:
            return found
        names = more


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
    if isinstance(x, (*CONTAINERS, *HOLDERS, numpy.ndarray)):
        return True
    if isinstance(x, SKIPPED):
        return False
    if isinstance(x, FunctionType):
        return is_own(x.__module__)
    if isinstance(x, ModuleType):
        return is_own(x.__name__) or x.__name__.removeprefix("numpy.") in DRAWING
    kind = x if isinstance(x, type) else type(x)
    is_namespace = f"{kind.__module__}.{kind.__qualname__}" in NAMESPACES
    return is_own(kind.__module__) or is_namespace or WRAPPED in getattr(x, "__dict__", ())


def is_own(home: Any) -> bool:
    """Whether `__module__` tells that the program or another library has made an object."""
    return str(home).partition(".")[0] not in FOREIGN


def _has_only_dict(x: Any) -> bool:
    """Whether all that an object holds is in its dict."""
    if isinstance(x, (*CONTAINERS, *HOLDERS, FunctionType)) or not hasattr(x, "__dict__"):
        return False
    return not any("__slots__" in vars(kind) for kind in type(x).__mro__)


def _children(x: Any, names: frozenset[str]) -> list[Any]:
    """Returns what an object holds, as far as the code names it."""
    if isinstance(x, numpy.ndarray):
        small = x.nbytes <= MOST_BYTES and not x.dtype.hasobject
        return [x.shape, blake2b(x.tobytes()).digest() if small else None]
    if isinstance(x, CONTAINERS):
        if len(x) > MOST_ELEMENTS:
            return [len(x)]
        return [*x.keys(), *x.values()] if isinstance(x, dict) else [*x]
    if isinstance(x, HOLDERS):
        return _parts(x)
    if isinstance(x, FunctionType):
        return [*variables(x)]
    attributes = [*_attributes(x, names)]
    if isinstance(x, nn.Module):  # their parameters, buffers and modes are looked at apart
        return [value for value in attributes if not isinstance(value, Tensor | nn.Module)]
    return attributes


def _parts(x: Any) -> list[Any]:
    """Returns what an object of Python's library calls or holds."""
    if isinstance(x, partial):
        return [x.func, *x.args, *x.keywords.values()]
    if isinstance(x, property):
        return [x.fget, x.fset]
    if isinstance(x, cached_property):
        return [x.func]
    if isinstance(x, ContextVar):
        return [x.get(MISSING)]
    return [getattr(x, "__self__", None), getattr(x, "__func__", None)]


def _attributes(x: Any, names: frozenset[str]) -> Iterator[Any]:
    held = getattr(x, "__dict__", None)
    if held is not None:
        implied = IMPLIED if isinstance(x, type) else (WRAPPED,)
        yield from (value for name, value in held.items() if name in names or name in implied)
    yield from x.__bases__ if isinstance(x, type) else (type(x),)
    for kind in type(x).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        slots = (slots,) if isinstance(slots, str) else slots
        yield from (getattr(x, name, MISSING) for name in slots if name in names)


def _names(x: Any) -> tuple[str, ...]:
    """Returns the names in the code of a function."""
    return names_in(x) if isinstance(x, FunctionType) else ()
