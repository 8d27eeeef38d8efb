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
from collections.abc import ItemsView, KeysView, ValuesView
from contextvars import ContextVar
from functools import (
    cache,
    cached_property,
    lru_cache,
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
from typing import Any
from weakref import ReferenceType

import numpy
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

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


def is_looked_into(x: Any) -> bool:
    """Whether the parts of an object are compared."""
    kind: Any = type(x)
    if kind in ATOMS:
        return False
    if _is_one_of(kind, WITH_PARTS) or (x.__class__ is not kind and isinstance(x, WITH_PARTS)):
        return x is not sys.modules
    if _is_one_of(kind, NAMED):
        return is_own(x.__module__) or x in OF_ENVIRONMENT
    return WRAPPED in getattr(x, "__dict__", ()) or _holds_what_is_compared(kind)


@lru_cache(maxsize=1 << 13)
def _is_one_of(kind: type, kinds: tuple[type, ...]) -> bool:
    return issubclass(kind, kinds)


@lru_cache(maxsize=1 << 13)
def _holds_what_is_compared(kind: type) -> bool:
    """Whether it is a class of the program or a library, or one of Python's that holds others."""
    return is_own(kind.__module__) or _is_plain_holder(kind) or _is_namespace(kind)


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
