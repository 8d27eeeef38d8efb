"""The parts of an object that a function reaches: elements, attributes, variables of a function.

`parts` returns those that the code names. `add_everything` has more of them compared by identity,
which is faster.
"""

from __future__ import annotations

import os
from abc import ABCMeta
from collections.abc import Iterator, Mapping, Sequence, Set
from contextvars import ContextVar
from functools import cached_property, partial, partialmethod, singledispatchmethod
from types import (
    BuiltinFunctionType,
    CellType,
    FunctionType,
    MappingProxyType,
    MemberDescriptorType,
    MethodType,
    MethodWrapperType,
    ModuleType,
)
from typing import Any
from weakref import ReferenceType, ref

import numpy
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from .function_variables import FunctionVariables
from .identity_sweep import MISSING, IdentitySweep, content_if_any
from .object_kinds import (
    ATOMS,
    CONTAINERS,
    HOLDERS,
    MEMORY,
    OPEN,
    TEXTS,
    WRAPPED,
    is_of_program,
    is_own,
    kept_with_the_class,
)

DICTS = (dict, MappingProxyType)
IMMUTABLE = (tuple, frozenset)
OF_MODULES = frozenset(vars(nn.Module())) - {"training"}
OF_SUPER = ("__thisclass__", "__self__", "__self_class__")
OF_TENSORS = ("requires_grad", "__class__")
OF_SECRETS = frozenset(("_cell", "_numbers", "numbers"))
IMPLIED = ("__call__", "__getitem__", "__iter__", "__len__", "__next__", "forward")
MAKING = ("__init__", "__new__", "__post_init__")
UNLESS_NAMED = frozenset(
    (
        *MAKING,
        *("__eq__", "__hash__", "__lt__", "__gt__", "__le__", "__ge__", "__ne__", "__repr__"),
        *("__str__", "__format__", "__del__", "__reduce__", "__getstate__", "__setstate__"),
    )
)
CALLED = (FunctionType, staticmethod, classmethod, property)
# Attributes by which code reads the settings and counters of optimizers and their schedulers.
SETTINGS = frozenset(("param_groups", "defaults", "state", "state_dict"))
COUNTERS = frozenset(("last_epoch", "base_lrs", "get_last_lr", "_last_lr", "get_lr", "state_dict"))


class AllNames(frozenset[str]):
    """The names of all attributes of objects; it lists those that the code shows."""

    def __contains__(self, name: object) -> bool:
        return True


ALL = AllNames()


def contents(x: Any) -> bytes:
    """Returns the bytes of an array, or of a buffer."""
    return x.tobytes() if isinstance(x, numpy.ndarray) else memoryview(x).tobytes()


def is_memory(x: Any) -> bool:
    """Whether an object is an array of numbers, whose bytes are compared."""
    return isinstance(x, MEMORY) and not (isinstance(x, numpy.ndarray) and x.dtype.hasobject)


def add_everything(sweep: IdentitySweep, x: Any, names: Set[str]) -> None:
    """Adds all that an object holds, or what the code names of it where that is faster."""
    kind = type(x)
    if kind in IMMUTABLE:
        return
    if kind is dict:
        sweep.add_mapping(x)
    elif kind is list or kind is set:
        sweep.add_elements(x)
    elif isinstance(x, FunctionType):
        FunctionVariables(x).add_to(sweep)
    elif isinstance(x, ModuleType) and not (isinstance(names, AllNames) and _is_of_program(x)):
        sweep.add_names(vars(x), _names_of_file(x, names))
    elif isinstance(x, type):
        sweep.add_attributes(x, "__bases__", "__class__")
        sweep.add_mapping(vars(x))
    elif isinstance(x, Tensor) and not _slots(_kind(x)):
        sweep.add_attributes(x, *OF_TENSORS)
        sweep.add_mapping(x.__dict__)
    elif isinstance(x, nn.Module) and not _slots(_kind(x)):
        add_module(sweep, x)
    elif _has_only_dict(x):
        sweep.add_object(x)
    else:
        sweep.add_other(lambda: parts(x, names))


def add_module(sweep: IdentitySweep, x: nn.Module) -> None:
    """Adds the attributes of a module, its tensors and its modules."""
    sweep.add_object(x)
    for held in (x._parameters, x._buffers, x._modules):
        sweep.add_mapping(held)


def _has_only_dict(x: Any) -> bool:
    """Whether all that an object holds is in its dict."""
    if isinstance(x, (*CONTAINERS, *HOLDERS, *TEXTS, Tensor, nn.Module, Optimizer, LRScheduler)):
        return False
    held = getattr(x, "__dict__", None)
    return held is not None and WRAPPED not in held and not _slots(_kind(x))


def parts(x: Any, names: Set[str]) -> list[Any]:
    """Returns what an object holds, as far as the code names it."""
    if isinstance(x, FunctionType):
        return FunctionVariables(x)()
    if isinstance(x, HOLDERS):
        return _held(x)
    if isinstance(x, ModuleType):
        return [part for pair in _named(vars(x), _names_of_file(x, names)) for part in pair]
    if isinstance(x, type):
        return _of_class(x, names)
    if isinstance(x, Tensor):
        return [x.requires_grad, *_attributes(x, names, OF_SECRETS)]
    if isinstance(x, Optimizer):
        return _of_optimizer(x) if _has_any(names, SETTINGS) else []
    if isinstance(x, LRScheduler):
        is_read = _has_any(names, COUNTERS)
        return [y for y in vars(x).values() if not callable(y)] if is_read else []
    if isinstance(x, nn.Module):
        tensors = (*x._parameters.values(), *x._buffers.values())
        return [*_attributes(x, names, OF_MODULES), *tensors, *x._modules.values()]
    if isinstance(x, CONTAINERS):
        return [*_elements(x), *(() if type(x) in CONTAINERS else _attributes(x, names))]
    if isinstance(x, TEXTS):
        return [x.getvalue(), x.tell()]
    if isinstance(x, numpy.ndarray):  # of objects
        return [x.shape, *x.ravel().tolist()]
    return _attributes(x, names)


def _is_of_program(x: ModuleType) -> bool:
    return is_of_program(x.__name__)


def _names_of_file(x: ModuleType, names: Set[str]) -> Set[str]:
    """Returns what the code may read of a file: all, if it computes names and it is its own."""
    if isinstance(names, AllNames) and _is_of_program(x):
        return names
    return frozenset((*names, "__getattr__"))  # which makes attributes that the file lacks


def _has_any(names: Set[str], wanted: Set[str]) -> bool:
    return isinstance(names, AllNames) or not names.isdisjoint(wanted)


def _elements(x: Any) -> list[Any]:
    if isinstance(x, os._Environ):
        return [*x._data, *x._data.values()]  # type: ignore[attr-defined]
    return [*x.keys(), *x.values()] if isinstance(x, DICTS) else [*x]


def _held(x: Any) -> list[Any]:
    """Returns what an object of Python's library calls or holds."""
    if isinstance(x, partial | partialmethod):
        return [x.func, *x.args, *x.keywords, *x.keywords.values(), *_own_attributes(x)]
    if isinstance(x, property):
        return [x.fget, x.fset, x.fdel]
    if isinstance(x, cached_property):
        return [x.func]
    if isinstance(x, singledispatchmethod):
        return [x.dispatcher, x.func]
    if isinstance(x, ContextVar):
        return [x.get(MISSING)]
    if isinstance(x, CellType):
        return [content_if_any(x)]
    if isinstance(x, ReferenceType):
        return [x()]
    if isinstance(x, super):
        return [getattr(x, name) for name in OF_SUPER]
    if isinstance(x, MethodType | BuiltinFunctionType | MethodWrapperType):
        return [x.__self__, getattr(x, "__func__", None)]
    return [x.__func__, *x.__dict__.values()]  # staticmethod, classmethod


def _own_attributes(x: Any) -> list[Any]:
    return [*getattr(x, "__dict__", {}).values()]


def _of_class(x: type, names: Set[str]) -> list[Any]:
    """Returns the attributes of a class that are named, and the methods that syntax calls."""
    is_usual = type(x) in (type, ABCMeta) or is_own(type(x).__module__)
    found = _named(vars(x), names if is_usual else ALL)
    implied = [pair for pair in vars(x).items() if _is_called(x, *pair)]
    return [*x.__bases__, type(x), *(part for pair in (*found, *implied) for part in pair)]


def _is_called(kind: type, name: str, value: Any) -> bool:
    """Whether syntax may call a method; of a library, only what a call, a loop or an index does."""
    if name in IMPLIED or not is_of_program(kind.__module__):
        return name in IMPLIED
    return name[:2] == "__" and (isinstance(value, CALLED) or name == "__match_args__")


def followed(x: Any, held: Sequence[Any], names: Set[str]) -> Iterator[Any]:
    """Yields the parts of an object into which to look, too.

    Methods that compare, show or make an object name all of its attributes: they are followed if
    the code names them, or what calls them; and those that make one, if code reaches the class.
    """
    is_class, kind = isinstance(x, type), type(x)
    for one in held:
        if type(one) in ATOMS:
            continue
        if not is_class or getattr(one, "__name__", None) not in UNLESS_NAMED - names:
            yield one
        if isinstance(one, type) and one is not kind and not is_class:
            yield from (y for each in one.__mro__ for y in map(vars(each).get, MAKING) if y)


def _of_optimizer(x: Optimizer) -> list[Any]:
    groups = [value for group in x.param_groups for pair in group.items() for value in pair]
    return [*groups, *x.state.values(), x.defaults]


def _attributes(x: Any, names: Set[str], without: Set[str] = frozenset()) -> list[Any]:
    """Returns the class of an object, and its attributes with these names."""
    names = ALL if _is_read_elsewhere(_kind(x)) else names
    found: list[Any] = [type(x)]
    if WRAPPED in getattr(x, "__dict__", ()):
        found += x.__wrapped__, *_num_kept(x)
    for name, value in _named(getattr(x, "__dict__", {}), names):
        if name not in without:
            found += name, value
    for name, home in _slots(_kind(x)):
        if name in names:
            found.append(_content(home(), name, x))
    return found


def _named(held: Mapping[str, Any], names: Set[str]) -> Iterator[tuple[str, Any]]:
    if isinstance(names, AllNames) or len(names) > len(held):
        return iter([pair for pair in held.items() if pair[0] in names])
    return iter([(name, held[name]) for name in names if name in held])


def _num_kept(x: Any) -> list[int]:
    """Returns how many results a cache keeps, and how many it had to compute."""
    found = getattr(x, "cache_info", None)
    return [] if found is None else [found().currsize, found().misses]


def _kind(x: Any) -> Any:
    return type(x)


def _is_read_elsewhere(kind: Any) -> bool:
    """Whether a library, whose code is not looked into, has written methods of a class."""
    homes = [str(each.__module__) for each in kind.__mro__]
    seen = (*OPEN, "abc", "typing")
    return any(one.partition(".")[0] not in seen and not is_of_program(one) for one in homes)


@kept_with_the_class
def _slots(kind: Any) -> tuple[tuple[str, ReferenceType[Any]], ...]:
    """Returns the names of its slots, and the classes that have them."""
    return tuple(
        (name, ref(each))
        for each in kind.__mro__
        for name, slot in vars(each).items()
        if isinstance(slot, MemberDescriptorType)
    )


def _content(home: Any, name: str, x: Any) -> Any:
    try:
        return vars(home)[name].__get__(x)
    except (AttributeError, KeyError, TypeError):  # it is empty, or another class has it now
        return MISSING
