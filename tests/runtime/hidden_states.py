"""Ways in which Python's code hides numbers, for `test_hidden_states.py`.

Each function here returns a function of a secret, and others that change what it uses, one after
the other. Some change what all threads of the process share: they set the same each time, and
`make` resets it.
"""

from __future__ import annotations

import array
import collections
import copy
import ctypes
import dataclasses
import enum
import functools
import io
import math
import operator
import os
import sys
import threading
import time
import types
import weakref
from contextvars import ContextVar
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

FACTOR = 1.0
ALL = []


def case(make):
    """Adds a way of hiding a number."""
    ALL.append(make)
    return make


@dataclasses.dataclass
class Config:
    factor: float = 1.0
    other: float = 0.0


class Node:
    def __init__(self, next_one):
        self.next_one = next_one


def set_factor(x):
    return lambda: setattr(x, "factor", 2.0)


def scaled(read):
    return lambda x: x * read()


# Beyond former limits -----------------------------------------------------------------------------


@case
def object_at_the_end_of_a_long_chain():
    end = chain = Config()
    for _ in range(600):
        chain = Node(chain)

    def read():
        one = chain
        while isinstance(one, Node):
            one = one.next_one
        return one.factor

    return scaled(read), set_factor(end)


@case
def object_among_twenty_thousand():
    configs = [Config() for _ in range(20_000)]
    return lambda x: x * configs[-1].factor, set_factor(configs[-1])


@case
def element_of_a_list_of_100_000():
    factors = [1.0] * 100_000
    return lambda x: x * factors[77_777], lambda: factors.__setitem__(77_777, 2.0)


@case
def element_of_a_list_of_a_million():
    factors = [1.0] * 1_000_000
    return lambda x: x * factors[777_777], lambda: factors.__setitem__(777_777, 2.0)


@case
def value_of_a_dict_of_5_000():
    factors = dict.fromkeys(range(5_000), 1.0)
    return lambda x: x * factors[4_000], lambda: factors.__setitem__(4_000, 2.0)


@case
def element_of_a_set_of_5_000():
    chosen = set(range(5_000))
    return lambda x: x * (1.0 if 4_000 in chosen else 2.0), lambda: chosen.discard(4_000)


@case
def element_of_an_array_of_a_megabyte():
    factors = np.ones(1 << 17)
    return lambda x: x * float(factors[99_999]), lambda: factors.__setitem__(99_999, 2.0)


@case
def element_of_an_array_of_24_megabytes():
    factors = np.ones(3 << 20)
    return lambda x: x * float(factors[2_999_999]), lambda: factors.__setitem__(2_999_999, 2.0)


@case
def array_of_objects():
    factors = np.array([1.0, None, "text"], dtype=object)
    return lambda x: x * factors[0], lambda: factors.__setitem__(0, 2.0)


# Computed names -----------------------------------------------------------------------------------


@case
def attribute_of_a_name_in_a_variable():
    config, name = Config(), "fac" + "tor"[:]
    return lambda x: x * getattr(config, name), set_factor(config)


@case
def attribute_of_a_name_that_is_put_together():
    config, part = Config(), "fac"
    return lambda x: x * getattr(config, f"{part}tor"), set_factor(config)


@case
def attribute_of_a_name_in_a_tuple():
    config, names = Config(), ("factor", "other")
    return lambda x: x * sum(getattr(config, one) for one in names), set_factor(config)


@case
def getattr_under_another_name():
    config, read, name = Config(), getattr, "fac" + "tor"[:]
    return lambda x: x * read(config, name), set_factor(config)


@case
def getattr_with_a_constant():
    config = Config()
    return lambda x: x * getattr(config, "factor", 3.0), set_factor(config)


@case
def values_of_vars():
    config = Config()
    return lambda x: x * sum(vars(config).values()), set_factor(config)


@case
def values_of_the_dict():
    config = Config()
    return lambda x: x * sum(config.__dict__.values()), set_factor(config)


@case
def values_of_asdict():
    config = Config()
    return lambda x: x * sum(dataclasses.asdict(config).values()), set_factor(config)


@case
def values_of_a_copy():
    config = Config()
    return lambda x: x * sum(vars(copy.copy(config)).values()), set_factor(config)


@case
def attribute_of_a_getter():
    config, read = Config(), operator.attrgetter("factor")
    return lambda x: x * read(config), set_factor(config)


@case
def attribute_in_a_format():
    config = Config()
    return lambda x: x * float(f"{config.factor}"), set_factor(config)


@case
def attribute_by_its_place():
    config = Config()

    def function(x):
        match config:
            case Config(factor):
                return x * factor

    return function, set_factor(config)


def change_global():
    global FACTOR
    FACTOR = 2.0


def reset_global():
    global FACTOR
    FACTOR = 1.0


@case
def variable_of_globals():
    reset_global()
    return lambda x: x * globals()["FAC" + "TOR"[:]], change_global


@case
def variable_of_eval():
    reset_global()
    text = "FACTOR"
    return lambda x: x * eval(text), change_global


@case
def variable_of_this_file():
    reset_global()
    return lambda x: x * FACTOR, change_global


def imported():
    found = types.ModuleType("hidden_settings")
    found.factor = 1.0
    return sys.modules.setdefault("hidden_settings", found)


@case
def variable_of_another_file():
    settings = imported()
    settings.factor = 1.0
    return lambda x: x * settings.factor, set_factor(settings)


@case
def variable_of_a_file_that_is_imported_within():
    settings = imported()
    settings.factor = 1.0

    def function(x):
        import hidden_settings

        return x * hidden_settings.factor

    return function, set_factor(settings)


@case
def name_imported_within():
    settings = imported()
    settings.factor = 1.0

    def function(x):
        from hidden_settings import factor

        return x * factor

    return function, set_factor(settings)


@case
def variable_of_a_file_by_a_computed_name():
    settings, name = imported(), "fac" + "tor"[:]
    settings.factor = 1.0
    return lambda x: x * getattr(settings, name), set_factor(settings)


# Classes ------------------------------------------------------------------------------------------


@case
def closure_without_a_value_yet():
    def read():
        try:
            return factor
        except NameError:
            return 1.0

    def change():
        nonlocal factor
        factor = 2.0

    if not FACTOR:
        factor = 0.0
    return scaled(read), change


@case
def closure_of_a_static_method():
    factors = [1.0]

    class Scaled:
        @staticmethod
        def scaled(x):
            return x * factors[0]

    one = Scaled()
    return lambda x: one.scaled(x), lambda: factors.__setitem__(0, 2.0)


@case
def closure_of_a_static_method_that_is_held():
    factors = [1.0]
    held = staticmethod(lambda x: x * factors[0])
    return lambda x: held(x), lambda: factors.__setitem__(0, 2.0)


@case
def closure_of_a_static_method_of_a_base():
    factors = [1.0]

    class Base:
        scaled = staticmethod(lambda x: x * factors[0])

    class Derived(Base):
        pass

    return lambda x: Derived.scaled(x), lambda: factors.__setitem__(0, 2.0)


@case
def attribute_that_a_subclass_hides():
    class Base:
        factor = 1.0

    class Derived(Base):
        pass

    return lambda x: x * Derived.factor, set_factor(Derived)


@case
def attribute_of_a_metaclass():
    class Meta(type):
        factor = 1.0

    class Scaled(metaclass=Meta):
        pass

    return lambda x: x * Scaled.factor, set_factor(Meta)


@case
def another_class():
    class Doubled(Config):
        @property
        def factor(self):
            return 2.0

    class Single(Config):
        @property
        def factor(self):
            return 1.0

    one = Single.__new__(Single)
    return lambda x: x * one.factor, lambda: setattr(one, "__class__", Doubled)


@case
def swapped_attributes():
    config = Config(1.0, 2.0)

    def swap():
        del config.factor, config.other
        config.other, config.factor = 1.0, 2.0

    return lambda x: x * config.factor, swap


@case
def descriptor():
    class Descriptor:
        factor = 1.0

        def __get__(self, one, kind):
            return self.factor

    class Scaled:
        value = descriptor = Descriptor()

    one = Scaled()
    return lambda x: x * one.value, lambda: setattr(Scaled.__dict__["value"], "factor", 2.0)


@case
def private_slot():
    class Slotted:
        __slots__ = ("__factor",)

        def __init__(self):
            self.__factor = 1.0

        def read(self):
            return self.__factor

        def double(self):
            self.__factor = 2.0

    one = Slotted()
    return lambda x: x * one.read(), one.double


@case
def operator_of_a_class():
    class Scaled:
        def __rmatmul__(self, x):
            return x * 1

        def __add__(self, other):
            return other * 1

    one = Scaled()
    return lambda x: one + x, lambda: setattr(Scaled, "__add__", lambda self, x: x * 2)


@case
def attribute_of_an_own_list():
    class Factors(list):
        factor = 1.0

    factors = Factors()
    return lambda x: x * factors.factor, set_factor(factors)


@case
def method_that_makes_an_attribute():
    class Lazy:
        factors = (1.0,)

        def __getattr__(self, name):
            return type(self).factors[0]

    one = Lazy()
    return lambda x: x * one.any_name, lambda: setattr(Lazy, "factors", (2.0,))


@case
def constructor():
    class Made:
        def __init__(self):
            self.factor = FACTOR

    reset_global()
    return lambda x: x * Made().factor, change_global


@case
def value_of_an_enum():
    class Kind(enum.Enum):
        FACTOR = 1.0

    return lambda x: x * Kind.FACTOR.value, lambda: setattr(Kind.FACTOR, "_value_", 2.0)


@case
def field_of_a_dataclass():
    config = Config()

    def function(x):
        return x * dataclasses.astuple(config)[0]

    return function, set_factor(config)


# Functions ----------------------------------------------------------------------------------------


@case
def attribute_of_a_function():
    def function(x):
        return x * function.factor

    function.factor = 1.0
    return function, set_factor(function)


@case
def code_of_a_function():
    def one():
        return 1.0

    def two():
        return 2.0

    return lambda x: x * one(), lambda: setattr(one, "__code__", two.__code__)


@case
def default_of_a_function():
    def one(*, factor=1.0):
        return factor

    return lambda x: x * one(), lambda: one.__kwdefaults__.update(factor=2.0)


@case
def nonlocal_variable():
    factor = 1.0

    def function(x):
        def inner():
            return factor

        return x * inner()

    def change():
        nonlocal factor
        factor = 2.0

    return function, change


@case
def results_of_a_cache():
    factors = [1.0, 1.0]

    @functools.lru_cache
    def read():
        return factors.pop()

    factors[0] = 2.0
    return lambda x: x * read(), read.cache_clear


@case
def function_under_single_dispatch():
    @functools.singledispatch
    def read(one):
        return 1.0

    return lambda x: x * read(0), lambda: read.register(int, lambda one: 2.0)


@case
def partial_method():
    factors = [1.0]

    class Scaled:
        def by(self, factors, x):
            return x * factors[0]

        scaled = functools.partialmethod(by, factors)

    one = Scaled()
    return lambda x: one.scaled(x), lambda: factors.__setitem__(0, 2.0)


@case
def function_of_python():
    def change():
        math.hidden_factor = lambda: 2.0

    math.hidden_factor = lambda: 1.0
    return lambda x: x * math.hidden_factor(), change


@case
def function_of_torch():
    kept = torch.nn.functional.relu
    torch.nn.functional.hidden = kept
    change = functools.partial(setattr, torch.nn.functional, "hidden", lambda x: kept(x) * 2)
    return lambda x: torch.nn.functional.hidden(x) + 0, change


@case
def shadowed_function_of_python():
    scope = {"__builtins__": {"abs": abs, "__import__": __import__}}  # torch imports
    function = eval("lambda x: abs(x) * 1", scope)
    return function, lambda: scope["__builtins__"].update(abs=lambda x: x * 2)


# Objects of libraries -----------------------------------------------------------------------------


@case
def simple_namespace():
    one = types.SimpleNamespace(factor=1.0)
    return lambda x: x * one.factor, set_factor(one)


@case
def user_dict():
    one = collections.UserDict(factor=1.0)
    return lambda x: x * one["factor"], lambda: one.update(factor=2.0)


@case
def chain_map():
    one = collections.ChainMap({}, {"factor": 1.0})
    return lambda x: x * one["factor"], lambda: one.maps[1].update(factor=2.0)


@case
def proxy_of_a_dict():
    held = {"factor": 1.0}
    proxy = types.MappingProxyType(held)
    return lambda x: x * proxy["factor"], lambda: held.update(factor=2.0)


@case
def weak_reference():
    config = Config()
    one = weakref.ref(config)
    return lambda x: x * one().factor, set_factor(config)


@case
def weak_dict():
    config = Config()
    held = weakref.WeakValueDictionary(one=config)
    return lambda x: x * held["one"].factor, set_factor(config)


@case
def context_variable():
    factor = ContextVar("factor", default=1.0)
    return lambda x: x * factor.get(), lambda: factor.set(2.0)


@case
def variable_of_a_thread():
    own = threading.local()
    own.factor = 1.0
    return lambda x: x * own.factor, set_factor(own)


@case
def bytes_that_change():
    held = bytearray(b"\x01")
    return lambda x: x * held[0], lambda: held.__setitem__(0, 2)


@case
def array_of_python():
    held = array.array("d", [1.0])
    return lambda x: x * held[0], lambda: held.__setitem__(0, 2.0)


@case
def array_of_c():
    held = (ctypes.c_double * 1)(1.0)
    return lambda x: x * held[0], lambda: held.__setitem__(0, 2.0)


@case
def text_in_memory():
    held = io.StringIO("1.0")

    def change():
        held.seek(0)
        held.write("2.0")

    return lambda x: x * float(held.getvalue()), change


@case
def environment_variable():
    os.environ["HIDDEN_FACTOR"] = "1.0"

    def change():
        os.environ["HIDDEN_FACTOR"] = "2.0"

    return lambda x: x * float(os.environ["HIDDEN_FACTOR"]), change


@case
def environment_variable_by_a_function():
    os.environ["HIDDEN_FACTOR"] = "1.0"

    def change():
        os.environ["HIDDEN_FACTOR"] = "2.0"

    return lambda x: x * float(os.getenv("HIDDEN_FACTOR")), change


@case
def clock():
    limit, late = time.time() + 1e6, [False]
    return lambda x: x * (2.0 if time.time() > limit or late[0] else 1.0), lambda: None


@case
def constant_tuple_of_names():
    config = Config()
    change = set_factor(config)
    return lambda x: x * max(getattr(config, one) for one in ("factor", "other")), change


# Modules, optimizers and public tensors -----------------------------------------------------------


class Holder(nn.Module):
    def __init__(self):
        super().__init__()
        self.part, self.factor = nn.Identity(), 1.0
        self.register_buffer("factors", torch.ones(1))


@case
def setting_that_forward_reads():
    class Scaled(nn.Module):
        def forward(self, x):
            return x * self.config.factor

    module = Scaled()
    module.config = Config()
    return lambda x: module(x) * 1, set_factor(module.config)


@case
def attribute_of_a_module_that_is_not_called():
    module = Holder()
    module.part.factor = 1.0
    return lambda x: x * module.part.factor, set_factor(module.part)


@case
def buffer_of_a_module_that_is_not_called():
    module = Holder()
    return lambda x: x * module.factors, lambda: setattr(module, "factors", torch.full((1,), 2.0))


@case
def mode_of_a_module_that_is_not_called():
    module = Holder()
    return lambda x: x * (1.0 if module.training else 2.0), module.eval


@case
def learning_rate_that_is_read():
    optimizer = torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=1.0)
    groups = optimizer.param_groups
    return lambda x: x * optimizer.param_groups[0]["lr"], lambda: groups[0].update(lr=2.0)


@case
def attribute_of_a_tensor():
    held = torch.ones(1)
    held.factor = 1.0
    return lambda x: x * held.factor, set_factor(held)


@case
def tensor_that_python_reads():
    held = torch.ones(2)
    return lambda x: x * held.tolist()[0], lambda: held.fill_(2.0)


@case
def tensor_that_shares_memory_with_an_array():
    held = np.ones(3, dtype=np.float32)
    tensor = torch.from_numpy(held)
    return lambda x: x * tensor, lambda: held.fill(2.0)


@case
def array_that_shares_memory_with_a_tensor():
    tensor = torch.ones(3)
    held = tensor.numpy()
    return lambda x: x * tensor, lambda: held.fill(2.0)


@case
def tensor_that_is_written_as_data():
    tensor = torch.ones(3)
    return lambda x: x * tensor, lambda: tensor.data.fill_(2.0)


@case
def large_tensor_that_is_written_as_data():
    tensor = torch.ones(1 << 19)
    return lambda x: x * tensor[:3], lambda: tensor.data.mul_(2.0)


@case
def large_array_that_a_tensor_shares():
    held = np.ones(1 << 20, dtype=np.float32)
    tensor = torch.from_numpy(held)
    return lambda x: x * tensor[99_999], lambda: held.__setitem__(99_999, 2.0)


# What is equal, and not the same ------------------------------------------------------------------


def replaced_then_changed(new, change, read):
    """The object is replaced by an equal one, and that one is changed."""
    held = {"it": new()}

    def replace():
        held["it"] = new()

    return scaled(lambda: read(held["it"])), replace, lambda: change(held["it"])


def write_first(x):
    x[0] = 2


@dataclasses.dataclass(slots=True)
class SlottedConfig:
    factor: float = 1.0


@dataclasses.dataclass
class PartlyCompared:
    factor: float = dataclasses.field(default=1.0, compare=False)


class Named:
    def __init__(self, factor):
        self.factor = factor

    def __eq__(self, other):
        return isinstance(other, Named)

    __hash__ = None


class FloatWithFactor(float):
    factor = 1.0


class Single(NamedTuple):
    value: float

    @property
    def factor(self):
        return self.value


class Double(NamedTuple):
    value: float

    @property
    def factor(self):
        return 2 * self.value


def of_factor(x):
    return x.factor


def of_first(x):
    return float(x[0])


EQUAL = {
    "equal_config": (Config, lambda x: set_factor(x)(), of_factor),
    "equal_slotted_config": (SlottedConfig, lambda x: set_factor(x)(), of_factor),
    "equal_namespace": (
        lambda: types.SimpleNamespace(factor=1.0),
        lambda x: set_factor(x)(),
        of_factor,
    ),
    "equal_array_of_numpy": (lambda: np.array([1.0]), write_first, of_first),
    "equal_array": (lambda: array.array("d", [1.0]), write_first, of_first),
    "equal_bytearray": (lambda: bytearray([1]), write_first, of_first),
}
for name, how in EQUAL.items():
    make = functools.partial(replaced_then_changed, *how)
    make.__name__ = name
    ALL.append(make)


def replaced(old, new, read):
    held = {"it": old}
    return scaled(lambda: read(held["it"])), lambda: held.update(it=new)


def float_with_factor():
    made = FloatWithFactor(1.0)
    made.factor = 2.0
    return made


OTHERS = {
    "field_that_is_not_compared": lambda: (PartlyCompared(), PartlyCompared(2.0), of_factor),
    "class_with_an_equality_of_its_own": lambda: (Named(1.0), Named(2.0), of_factor),
    "float_with_an_attribute": lambda: (FloatWithFactor(1.0), float_with_factor(), of_factor),
    "named_tuple_of_another_class": lambda: (Single(1.0), Double(1.0), of_factor),
    "negative_zero_of_numpy": lambda: (
        np.float64(0.0),
        np.float64(-0.0),
        lambda x: float(np.copysign(1.0, x)),
    ),
}
for name, pair in OTHERS.items():
    make = functools.partial(lambda pair: replaced(*pair()), pair)
    make.__name__ = name
    ALL.append(make)


# Objects of C that hold others --------------------------------------------------------------------


@case
def view_of_a_dict():
    held = {"factor": 1.0}
    values = held.values()
    return scaled(lambda: sum(values)), lambda: held.update(factor=2.0)


@case
def length_of_a_list_as_a_variable():
    held = [1.0]
    length = held.__len__
    return scaled(lambda: float(length())), lambda: held.append(1.0)


@case
def number_of_ctypes():
    held = ctypes.c_double(1.0)
    return scaled(lambda: held.value), lambda: setattr(held, "value", 2.0)


@case
def record_of_numpy():
    records = np.ones(1, dtype=[("factor", "f8")])
    first = records[0]
    return scaled(lambda: float(first["factor"])), lambda: records.__setitem__("factor", 2.0)


@case
def event():
    done = threading.Event()
    return scaled(lambda: 2.0 if done.is_set() else 1.0), done.set


@case
def attribute_that_a_file_makes():
    file, held = types.ModuleType("file_that_makes_attributes"), {"factor": 1.0}
    file.__getattr__ = lambda name: held[name]
    return scaled(lambda: file.factor), lambda: held.update(factor=2.0)


class Shown:
    def __init__(self):
        self.factor = 1.0

    def __str__(self):
        return str(self.factor)


@case
def object_in_a_formatted_text():
    shown = Shown()
    return scaled(lambda: float("%s" % shown)), set_factor(shown)  # noqa: UP031


@case
def shape_of_a_tensor_that_is_resized():
    held = torch.ones(1)
    return scaled(lambda: float(len(held))), lambda: setattr(held, "data", torch.ones(2))
