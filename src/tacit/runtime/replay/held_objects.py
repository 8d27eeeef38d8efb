"""Objects that a function reaches from its variables, and whether they hold what they held.

Looked at are the elements of containers and arrays, the variables of functions and methods, and the
attributes of objects, classes and files that the code of those functions names. Code of Python's
library, of torch, numpy and Tacit is not looked into. What is too much to be compared before every
call is an obstacle.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Set
from operator import is_
from types import FunctionType, ModuleType
from typing import Any

from torch import Tensor

from .buffers import is_same
from .code_names import names_in
from .identity_sweep import IdentitySweep
from .object_kinds import CONTAINERS, HOLDERS, is_code_of_library, is_looked_into, is_of_program
from .object_parts import AllNames, add_everything, contents, followed, is_memory, parts
from .outside_sources import computes_names, obstacle_of_function, obstacle_of_values

MOST_OBJECTS = 1 << 14
MOST_ELEMENTS = 1 << 18  # of all objects
MOST_BYTES = 1 << 24  # of all arrays
MOST_OF_LIBRARIES = 256  # functions, classes and files; those that are further away are left out


class HeldObject:
    """What an object held at one time: elements, or the attributes of given names."""

    num_bytes = 0  # of an array

    def __init__(self, holder: Any, names: Set[str]) -> None:
        self.holder, self._names = holder, names
        self._own: IdentitySweep | None = None
        self.children = parts(holder, names)

    def add_to(self, sweep: IdentitySweep) -> None:
        """Adds what it holds to what is compared by identity."""
        add_everything(sweep, self.holder, self._names)

    def is_unchanged(self) -> bool:
        """Returns whether it holds the same, or what is equal."""
        if self._own is not None and self._own.is_same():
            return True
        now = parts(self.holder, self._names)
        if len(now) != len(self.children) or not all(map(is_same, self.children, now)):
            return False
        self._own = IdentitySweep()
        self.add_to(self._own)
        self._own.take()
        return True


class HeldMemory(HeldObject):
    """What an array of numbers held at one time. Nobody counts what is written to it."""

    def __init__(self, holder: Any) -> None:
        self.holder, self.num_bytes = holder, memoryview(holder).nbytes
        self.children = [*getattr(holder, "__dict__", {}).values()]
        self._held = self._now() if self.num_bytes <= MOST_BYTES else ()

    def add_to(self, sweep: IdentitySweep) -> None:
        """Adds nothing: its bytes are compared each time."""

    def is_unchanged(self) -> bool:
        return self.has_contents()

    def has_contents(self) -> bool:
        """Returns whether it holds the same numbers."""
        return self._held == self._now()

    def _now(self) -> tuple[Any, ...]:
        x = self.holder
        form = (getattr(x, "shape", None), getattr(x, "dtype", None))
        return *form, contents(x), *map(id, getattr(x, "__dict__", {}).values())


class HeldTensor(HeldObject):
    """What a tensor held at one time, and its form, which `tensor.data` may change unseen."""

    def __init__(self, holder: Tensor, names: Set[str]) -> None:
        super().__init__(holder, names)
        self._form = self._now()

    def is_unchanged(self) -> bool:
        return self.has_contents() and super().is_unchanged()

    def has_contents(self) -> bool:
        """Returns whether it has the same form; the rest of it is compared by identity."""
        return self._form == self._now()

    def _now(self) -> tuple[Any, ...]:
        return self.holder.shape, self.holder.dtype


class Reached:
    """The objects that functions among roots, or reached from them, name.

    obstacle: why they cannot be compared before every call, or None.
    names: those of attributes in the code of all functions.
    """

    def __init__(self, roots: Iterable[Any], names: frozenset[str] = frozenset()) -> None:
        """names: some that are looked up, too, such as those of a moment before."""
        self.objects: list[HeldObject] = []
        self.obstacle: str | None = None
        roots = list(roots)
        while self.obstacle is None:
            self.objects, self.obstacle = _reached(roots, names)
            more = self._names(names)
            if type(more) is type(names) and more == names:
                break
            names = more
        self.names = frozenset([*names])  # whether they are all is found out each time
        self.obstacle = self.obstacle or next(filter(None, map(_obstacle, self.objects)), None)

    def _names(self, before: frozenset[str]) -> frozenset[str]:
        """Returns these names and those in the code of all functions.

        Which functions of libraries are the nearest follows from the names, so that they must grow.
        """
        functions = [x.holder for x in self.objects if isinstance(x.holder, FunctionType)]
        found = frozenset(before).union(*(names_in(x.__code__).attributes for x in functions))
        computes = isinstance(before, AllNames) or any(
            is_of_program(x.__module__) and computes_names(x) for x in functions
        )
        return AllNames(found) if computes else found


def _reached(roots: list[Any], names: frozenset[str]) -> tuple[list[HeldObject], str | None]:
    """Returns objects, and an obstacle; only what is found with the names of all functions counts.

    What comes after a function is looked up with its names, so that few passes find all of them.
    """
    found, waiting, seen = list[HeldObject](), deque(roots), set[int]()
    num_elements = num_bytes = num_of_libraries = 0
    while waiting:
        one = waiting.popleft()
        if id(one) in seen or not is_looked_into(one):
            continue
        seen.add(id(one))
        if is_code_of_library(one):
            num_of_libraries += 1
            if num_of_libraries > MOST_OF_LIBRARIES:
                continue
        if isinstance(one, FunctionType):
            names = _with_names_of(one, names)
        held = _held(one, names)
        found.append(held)
        waiting.extend(followed(one, held.children, names))
        num_elements, num_bytes = num_elements + len(held.children), num_bytes + held.num_bytes
        obstacle = _excess(len(found), num_elements, num_bytes)
        if obstacle is not None:
            return found, obstacle
    return found, None


def _with_names_of(function: FunctionType, names: frozenset[str]) -> frozenset[str]:
    more = names_in(function.__code__).attributes
    return names if more.issubset(names) else type(names)(names | more)


def _held(x: Any, names: Set[str]) -> HeldObject:
    if is_memory(x):
        return HeldMemory(x)
    return HeldTensor(x, names) if isinstance(x, Tensor) else HeldObject(x, names)


def _excess(num_objects: int, num_elements: int, num_bytes: int) -> str | None:
    """Returns of what there is too much to be compared before every call, or None."""
    if num_objects > MOST_OBJECTS:
        return f"it reaches more than {MOST_OBJECTS:,} objects from its variables"
    if num_elements > MOST_ELEMENTS:
        return f"it reaches lists of more than {MOST_ELEMENTS:,} elements together"
    if num_bytes > MOST_BYTES:
        return f"it reaches arrays of more than {MOST_BYTES:,} bytes together"
    return None


def _obstacle(one: HeldObject) -> str | None:
    """Returns what the program takes from outside by an object, or None."""
    x = one.holder
    if isinstance(x, FunctionType):
        return obstacle_of_function(x) if is_of_program(x.__module__) else None
    if isinstance(x, ModuleType):
        return obstacle_of_values(one.children) if is_of_program(x.__name__) else None
    if isinstance(x, (*CONTAINERS, *HOLDERS)):
        return obstacle_of_values(one.children)
    home = x.__module__ if isinstance(x, type) else type(x).__module__
    return obstacle_of_values(one.children) if is_of_program(home) else None


def identical(before: Collection[Any], now: Collection[Any]) -> bool:
    """Whether all items are the same objects."""
    return len(before) == len(now) and all(map(is_, before, now))
