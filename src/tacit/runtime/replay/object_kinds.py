"""Kinds of objects that a function can reach: whose code they are, and what can be seen of them."""

from __future__ import annotations

import collections
import ctypes
import mmap
import os
import site
import sys
import sysconfig
import threading
from array import array
from collections.abc import Callable, ItemsView, KeysView, ValuesView
from contextvars import ContextVar
from functools import (
    cache,
    cached_property,
    partial,
    partialmethod,
    singledispatchmethod,
)
from io import BytesIO, StringIO
from types import (
    BuiltinFunctionType,
    CellType,
    CodeType,
    FunctionType,
    MappingProxyType,
    MethodType,
    MethodWrapperType,
    ModuleType,
)
from typing import Any, NamedTuple, TypeVar
from weakref import ReferenceType, WeakKeyDictionary

import numpy
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

T = TypeVar("T")

CONTAINERS = (
    *(list, tuple, dict, set, frozenset, collections.deque, MappingProxyType, os._Environ),
    *(KeysView, ValuesView, ItemsView),
)
MEMORY = (
    *(numpy.ndarray, numpy.void, bytearray, memoryview, array, mmap.mmap),
    *(ctypes.Array, ctypes._SimpleCData),
)
TEXTS = (StringIO, BytesIO)
FUNCTIONS = (FunctionType, BuiltinFunctionType, MethodType, type)
HOLDERS = (
    *(MethodType, BuiltinFunctionType, staticmethod, classmethod, property, cached_property),
    *(partial, partialmethod, singledispatchmethod, ContextVar, CellType, ReferenceType),
    *(MethodWrapperType, super),
)
NAMED = (FunctionType, type)  # they tell by themselves whose they are
WITH_PARTS = (
    *(*CONTAINERS, *HOLDERS, *MEMORY, *TEXTS, ModuleType, Tensor),
    *(nn.Module, Optimizer, LRScheduler, threading.Event),
)
ATOMS = frozenset((int, float, bool, str, bytes, complex, type(None), type(...), CodeType))
FOREIGN = frozenset((*sys.stdlib_module_names, "torch", "tacit", "numpy"))
OPEN = frozenset(("numpy", "torch", "tacit", "builtins"))  # their objects are looked at elsewhere
# Objects of these files of Python's library change no numbers, or are looked at elsewhere.
HARMLESS = frozenset(
    (
        *("logging", "threading", "typing", "types", "importlib", "abc", "_abc", "re", "io", "_io"),
        *("functools", "dataclasses", "datetime", "decimal", "fractions", "uuid", "pathlib"),
        *("operator", "itertools", "contextvars", "warnings", "contextlib", "random", "time"),
        *("_frozen_importlib", "_frozen_importlib_external", "_contextvars", "_random", "numbers"),
        *("zoneinfo", "ipaddress", "_operator", "codecs", "inspect", "ast", "traceback", "_thread"),
    )
)
# Objects of C of these files hold no numbers, or are looked at elsewhere.
CLEAR = HARMLESS | OPEN | {"collections", "_collections", "enum", "weakref", "_weakref"}
# They read environment variables, which are compared.
OF_ENVIRONMENT = (os.getenv, os.getenvb, os.path.expandvars, os.path.expanduser)
WRAPPED = "__wrapped__"  # what a decorator calls
_PACKAGES = set[str]()  # of the program, although they are installed


@cache
def is_own(home: Any) -> bool:
    """Whether `__module__` tells that the program or another library has made an object."""
    return str(home).partition(".")[0] not in FOREIGN


def is_of_program(home: Any) -> bool:
    """Whether it tells that the program has made it, and no library that is installed."""
    top = str(home).partition(".")[0]
    return is_own(home) and (top in _PACKAGES or not _is_installed(top))


def note_package(function: Any) -> None:
    """Tells that the package which defines a function is the program's; not for a model's class."""
    if isinstance(function, FunctionType | MethodType) and not isinstance(
        getattr(function, "__self__", None), nn.Module
    ):
        _PACKAGES.add(str(function.__module__).partition(".")[0])


@cache
def _is_installed(top: str) -> bool:
    file = getattr(sys.modules.get(top), "__file__", None) or ""
    return file.startswith(_folders_of_libraries())


@cache
def _folders_of_libraries() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    found = [paths["purelib"], paths["platlib"], *site.getsitepackages()]
    return tuple(os.path.join(path, "") for path in [*found, site.getusersitepackages()])


def kept_with_the_class(find: Callable[[Any], T]) -> Callable[[Any], T]:
    """Keeps what is found of a class as long as the class lives; that must not refer to it.

    A class may refer to all that its methods do: weights, or a session with its keys.
    """
    known: WeakKeyDictionary[Any, T] = WeakKeyDictionary()

    def found(kind: Any) -> T:
        made = known.get(kind)
        if made is None:
            made = known[kind] = find(kind)
        return made

    return found


class ToldByClass(NamedTuple):
    """What the class of an object tells of it.

    has_parts: whether they are compared. is_named: whether it tells by itself whose it is.
    is_holder: whether the program or a library has made it, or it holds other objects.
    """

    has_parts: bool
    is_named: bool
    is_holder: bool


@kept_with_the_class
def _told_by(kind: Any) -> ToldByClass:
    is_holder = is_own(kind.__module__) or _is_plain_holder(kind) or _is_namespace(kind)
    return ToldByClass(issubclass(kind, WITH_PARTS), issubclass(kind, NAMED), is_holder)


def is_looked_into(x: Any) -> bool:
    """Whether the parts of an object are compared."""
    kind: Any = type(x)
    if kind in ATOMS:
        return False
    told = _told_by(kind)
    if told.has_parts or (x.__class__ is not kind and isinstance(x, WITH_PARTS)):
        return x is not sys.modules
    if told.is_named:
        return is_own(x.__module__) or x in OF_ENVIRONMENT
    return told.is_holder or WRAPPED in getattr(x, "__dict__", ())


def _is_plain_holder(kind: type) -> bool:
    """Whether objects of a class of Python's library hold what they hold in a dict."""
    top = str(kind.__module__).partition(".")[0]
    return top not in HARMLESS and top not in OPEN and bool(kind.__dictoffset__)


def _is_namespace(kind: type) -> bool:
    return f"{kind.__module__}.{kind.__qualname__}" in ("types.SimpleNamespace", "_thread._local")


def is_code_of_library(x: Any) -> bool:
    """Whether an object is a function, a class or a file of a library that is installed."""
    if isinstance(x, ModuleType):
        return not is_of_program(x.__name__)
    return isinstance(x, NAMED) and not is_of_program(x.__module__)


def is_opaque(x: Any) -> bool:
    """Whether an object may hold numbers into which nobody can look."""
    kind = type(x)
    top = str(kind.__module__).partition(".")[0]
    if isinstance(x, (*MEMORY, *TEXTS, *HOLDERS, *CONTAINERS)) or top in CLEAR:
        return False
    has_names = kind.__dictoffset__ or any("__slots__" in vars(each) for each in kind.__mro__)
    return not has_names and kind.__basicsize__ > object.__basicsize__
