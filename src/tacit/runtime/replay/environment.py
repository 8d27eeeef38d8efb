"""What a function depends on besides its arguments and the secrets that it reads.

This covers the global and closure variables that it names, also in functions of its own file and
under decorators, with the objects that it reaches from them (`held_objects.py`); the modules that
it calls with their numbers, texts and functions; and the optimizers that step in it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from contextlib import contextmanager
from functools import cache, partial
from types import CodeType, FunctionType
from typing import Any

from torch import nn
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler
from torch.optim.optimizer import register_optimizer_step_post_hook

from ...tensor import SecretTensor
from ...tensor.trace import Trace
from .held_objects import FUNCTIONS, HeldObject, code_names, held_objects, identical, unchanged

# Attributes of a module that are compared.
SETTINGS = (bool, int, float, str, type(None), *FUNCTIONS)


class Environment:
    """The variables, modules and optimizers that a function used, and their state at that time."""

    def __init__(self, function: Callable[..., Any], arguments: Sequence[Any] = ()) -> None:
        """arguments: those that are no secrets."""
        self._function, self._arguments = function, arguments
        self.modules: list[nn.Module] = []
        self.optimizers: list[Optimizer] = []
        self._followed: Set[int] = frozenset()
        self._recorded: list[Any] = []
        self._states: list[ModuleState | HeldObject] = []

    @contextmanager
    def observed(self, trace: Trace) -> Iterator[None]:
        """Collects the modules and optimizers that this thread uses, then records their state.

        Settings of optimizers that the trace follows are not compared.
        """
        _hook_optimizers()
        found: dict[int, Any] = {}
        _local.found, handle = found, register_module_forward_pre_hook(_record)
        try:
            yield
        finally:
            handle.remove()
            _local.found = None
        self.modules = [x for x in found.values() if isinstance(x, nn.Module)]
        self.optimizers = [x for x in found.values() if isinstance(x, Optimizer)]
        self._followed = trace.followed_optimizers
        self._recorded = self._current()
        self._states = [*map(ModuleState, self.modules), *self._held_objects()]

    def schedulers(self) -> list[LRScheduler]:
        """Returns the schedulers that the function reaches from its variables."""
        held = [x for one in self._held_objects() for x in one.children]
        found = [x for x in (*_all_variables(self._function), *held) if isinstance(x, LRScheduler)]
        return list({id(x): x for x in found}.values())

    def _held_objects(self) -> list[HeldObject]:
        """Returns the objects that the function, hooks, modules and arguments refer to."""
        called = [self._function, *_hooks(self.modules, self.optimizers)]
        variables = [[*_all_variables(one)] for one in called]
        names = [name for pair in zip(called, variables, strict=True) for name in _all_names(*pair)]
        roots = [x for found in variables for x in found]
        return held_objects([*roots, *self._arguments, *self.modules], names)

    @property
    def counts_steps(self) -> bool:
        """Whether an optimizer that is not followed counts its steps."""
        others = [one for one in self.optimizers if id(one) not in self._followed]
        return any("step" in state for one in others for state in one.state.values())

    def parameters(self) -> list[SecretTensor]:
        """Returns the secret parameters of the optimizers and modules."""
        found: list[Any] = [x for module in self.modules for x in module._parameters.values()]
        groups = [group["params"] for one in self.optimizers for group in one.param_groups]
        found += [x for params in groups for x in params]
        return list({id(x): x for x in found if isinstance(x, SecretTensor)}.values())

    def is_unchanged(self) -> bool:
        """Returns whether everything is as it was recorded."""
        same_objects = all(state.is_unchanged() for state in self._states)
        return same_objects and _all_unchanged(self._recorded, self._current())

    def _current(self) -> list[Any]:
        """Returns the variables of the function, and the settings and state of its optimizers."""
        found: list[Any] = [*_all_variables(self._function)]
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                if id(optimizer) not in self._followed:
                    found += [x for name, x in group.items() if name != "params"]
                found += group["params"]
            for state in optimizer.state.values():
                found += state.values()
        return [part for x in found for part in _comparable(x)]


class ModuleState:
    """The settings of a module, its tensors, its modules and its hooks, as they were."""

    def __init__(self, module: nn.Module) -> None:
        self._module = module
        self._attributes, self._parts = [*vars(module).values()], self._current_parts()
        self._gradients = self._required_gradients()

    def is_unchanged(self) -> bool:
        """Returns whether they are the same. Mostly all are the same objects: that is fast."""
        attributes = vars(self._module).values()
        is_same = identical(self._attributes, attributes) or _all_unchanged(
            _settings(self._attributes), _settings(attributes)
        )
        return (
            is_same
            and identical(self._parts, self._current_parts())
            and self._gradients == self._required_gradients()
        )

    def _current_parts(self) -> list[Any]:
        one = self._module
        parts: tuple[dict[Any, Any], ...] = (one._parameters, one._buffers, one._modules)
        return [x for held in (*parts, *_hooks_of(one)) for x in held.values()]

    def _required_gradients(self) -> list[bool]:
        return [x.requires_grad for x in self._parts if isinstance(x, SecretTensor)]


def _hooks(modules: Iterable[nn.Module], optimizers: Iterable[Optimizer]) -> Iterator[Any]:
    """Yields the functions that modules and optimizers call besides their own."""
    found = [held for one in modules for held in _hooks_of(one)]
    for each in optimizers:
        found += each._optimizer_step_pre_hooks, each._optimizer_step_post_hooks
    for held in found:
        yield from held.values()


def _hooks_of(module: nn.Module) -> tuple[dict[int, Any], ...]:
    return module._forward_pre_hooks, module._forward_hooks, module._backward_hooks


def _settings(attributes: Iterable[Any]) -> list[Any]:
    return [x for x in attributes if isinstance(x, SETTINGS)]


def _all_unchanged(before: Sequence[Any], now: Sequence[Any]) -> bool:
    return len(before) == len(now) and all(map(unchanged, before, now))


def _comparable(value: Any) -> Iterator[Any]:
    """Yields what to compare: the value, and requires_grad of a secret."""
    yield value
    if isinstance(value, SecretTensor):
        yield value.requires_grad


def _all_variables(function: Any) -> Iterator[Any]:
    """Yields the variables of a function, and of the functions of its file that it may call."""
    waiting, known = [function], {id(function)}
    while waiting:
        one = waiting.pop()
        for value in _variables(one):
            yield value
            if _is_own(value, function) and id(value) not in known:
                known.add(id(value))
                waiting.append(value)


def _is_own(value: Any, function: Any) -> bool:
    """Whether a variable is a function of the same file; what a decorator returns counts as one."""
    return isinstance(value, FunctionType) and value.__module__ == _module(function)


def _module(function: Any) -> Any:
    while isinstance(function, partial):
        function = function.func
    return getattr(function, "__module__", None)


def _variables(function: Any) -> Iterator[Any]:
    """Yields the values of a function's closure, the globals that it names, and its defaults."""
    if isinstance(function, partial):
        yield from (*function.args, *function.keywords.values())
        yield from _variables(function.func)
    elif hasattr(function, "__func__"):
        yield from getattr(function.__self__, "__dict__", {}).values()
        yield from _variables(function.__func__)
    elif isinstance(code := getattr(function, "__code__", None), CodeType):
        for cell in function.__closure__ or ():
            try:
                yield cell.cell_contents
            except ValueError:  # the cell is empty
                yield None
        scope = function.__globals__
        yield from (scope[name] for name in code_names(code) if name in scope)
        yield from function.__defaults__ or ()
        yield from (function.__kwdefaults__ or {}).values()
    else:
        yield function  # an object that can be called


def _all_names(function: Any, variables: Sequence[Any]) -> Iterator[str]:
    """Yields the names in the code of a function, and of the functions of its file."""
    while isinstance(function, partial):
        function = function.func
    for one in (function, *(x for x in variables if _is_own(x, function))):
        code = getattr(one, "__code__", None)
        yield from code_names(code) if isinstance(code, CodeType) else ()


_local = threading.local()


@cache
def _hook_optimizers() -> None:
    """Registers a hook once and for ever: removing it could race with threads that call hooks."""
    register_optimizer_step_post_hook(_record)


def _record(value: Any, *_: Any) -> None:
    found = getattr(_local, "found", None)
    if found is not None:
        found[id(value)] = value
