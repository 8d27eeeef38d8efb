"""What code takes from outside of its program, or by computed names, so that nobody can compare it.

Clocks, files, sockets, other processes and the system's random numbers are found by the functions
that read them, under whatever name the code has for them.
"""

from __future__ import annotations

import builtins
import copy
import dataclasses
import datetime
import gc
import importlib
import inspect
import io
import json
import operator
import os
import pathlib
import secrets
import socket
import subprocess
import sys
import time
import urllib.request
import uuid
from collections.abc import Iterable, Iterator
from functools import cache
from io import BytesIO, IOBase, StringIO
from pickle import dumps as written_by_pickle  # which reads nothing
from types import FunctionType, ModuleType
from typing import Any

import numpy
import torch

from .code_names import BY_NAME, names_in
from .function_variables import FunctionVariables
from .object_kinds import is_of_program, is_opaque, is_own

UNSEEN_CLOCKS = ("sleep", "mktime", "strptime", "get_clock_info", "struct_time", "tzset")
OF_PATHS = ("open", "read_text", "read_bytes", "exists", "is_file", "is_dir", "stat", "iterdir")
OF_DATES = ("now", "today", "utcnow")
HIDDEN_NAMES = frozenset(("__globals__", "__builtins__", "f_globals", "f_locals", "f_back"))
GETTERS = (operator.attrgetter, operator.methodcaller)
DEPTH = 3  # of files in files: `datetime.datetime`, `os.path.exists`


def _named(home: Any, *names: str) -> list[Any]:
    return [getattr(home, name) for name in names if hasattr(home, name)]


def _sources() -> Iterator[tuple[str, list[Any]]]:
    clocks = [x for name, x in vars(time).items() if name not in UNSEEN_CLOCKS]
    yield "a clock", [x for x in clocks if callable(x)]
    files = _named(os, "open", "read", "listdir", "scandir", "walk", "stat", "lstat", "popen")
    files += _named(os.path, "exists", "isfile", "isdir", "getmtime", "getsize")
    files += _named(numpy, "load", "loadtxt", "genfromtxt", "fromfile", "memmap")
    yield "a file", [io.open, *files, torch.load, torch.from_file]
    yield "what somebody types", [input]
    net = _named(socket, "socket", "create_connection", "gethostname", "getaddrinfo")
    yield "a network", [*net, urllib.request.urlopen]
    started = _named(subprocess, "run", "Popen", "call", "check_call", "check_output", "getoutput")
    yield "another process", [*started, os.system]
    random = _named(secrets, "token_bytes", "token_hex", "randbelow", "choice", "randbits")
    random += _named(torch, "initial_seed", "seed", "get_rng_state")
    yield "random numbers", [*random, os.urandom, uuid.uuid1, uuid.uuid4]


@cache
def _outside() -> dict[int, str]:
    return {id(x): f"it reads {what}" for what, found in _sources() for x in found}


@cache
def _by_computed_name() -> dict[int, str]:
    """Returns why functions that read variables by a computed name cannot be followed."""
    found = [*_named(builtins, "eval", "exec", "globals", "compile", "__import__"), sys.modules]
    found += [*_named(sys, "_getframe"), *_named(inspect, "currentframe", "stack")]
    found += importlib.import_module, gc.get_objects, gc.get_referrers
    return {id(x): "it reads variables by a computed name" for x in found}


@cache
def _listing() -> frozenset[int]:
    """Returns functions that read attributes of an object by names that the code does not show.

    They are compared with those that a program names, and never called here.
    """
    found = [vars, operator.attrgetter, operator.methodcaller, copy.copy, copy.deepcopy]
    found += _named(dataclasses, "asdict", "astuple", "fields", "replace")
    found += written_by_pickle, json.dumps, inspect.getmembers, inspect.getattr_static
    return frozenset(map(id, found))


def obstacle_of_function(function: FunctionType) -> str | None:
    """Returns what the code of a function takes from outside, or None."""
    names = names_in(function.__code__)
    if not names.attributes.isdisjoint(HIDDEN_NAMES):
        return "it reads variables by a computed name"
    found = [*_used(function)]
    dates = [x for x in found if x is datetime.datetime or x is datetime.date]
    if dates and not names.attributes.isdisjoint(OF_DATES):
        return "it reads a clock"
    if any(_is_path(x) for x in found) and not names.attributes.isdisjoint(OF_PATHS):
        return "it reads a file"
    return obstacle_of_values(found)


def obstacle_of_values(values: Iterable[Any]) -> str | None:
    """Returns why one of these makes a function one that cannot be followed, or None."""
    for x in values:
        found = _outside().get(id(x)) or _by_computed_name().get(id(x))
        if found is not None:
            return found
        if _is_file(x):
            return "it reads a file"
        if is_opaque(x):
            return f"nobody can look into a {type(x).__module__}.{type(x).__qualname__}"
    return None


def computes_names(function: FunctionType) -> bool:
    """Whether a function reads attributes of objects by names that its code does not show."""
    if names_in(function.__code__).computes:
        return True
    found = [*_used(function)]
    readers = [x for x in found if isinstance(x, FunctionType) and _is_of_library(x)]
    if any(names_in(x.__code__).computes for x in readers):
        return True
    return any(id(x) in _listing() or isinstance(x, GETTERS) for x in found) or _renames(function)


def _renames(function: FunctionType) -> bool:
    """Whether a function has `getattr` under another name."""
    by_name = {id(vars(builtins)[name]) for name in BY_NAME}
    variables = FunctionVariables(function)()
    named = names_in(function.__code__).variables
    return sum(id(x) in by_name for x in variables) > sum(name in BY_NAME for name in named)


def _is_of_library(x: FunctionType) -> bool:
    return is_own(x.__module__) and not is_of_program(x.__module__)


def _used(function: FunctionType) -> Iterator[Any]:
    """Yields the variables of a function, and what it names of files that are not its program's."""
    attributes, waiting = names_in(function.__code__).attributes, FunctionVariables(function)()
    for _ in range(DEPTH):
        yield from waiting
        files = [x for x in waiting if isinstance(x, ModuleType) and not is_own(x.__name__)]
        waiting = [vars(x)[name] for x in files for name in attributes if name in vars(x)]


def _is_path(x: Any) -> bool:
    return (
        x in (pathlib.Path, pathlib.PosixPath)
        if isinstance(x, type)
        else (isinstance(x, pathlib.PurePath))
    )


def _is_file(x: Any) -> bool:
    """Whether somebody may read from a file that is open; one that is written to is harmless."""
    is_shown = x is sys.stdout or x is sys.stderr or isinstance(x, StringIO | BytesIO)
    return isinstance(x, IOBase) and not is_shown and not x.closed and x.readable()
