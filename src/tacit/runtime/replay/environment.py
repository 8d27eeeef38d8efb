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
from types import FunctionType
from typing import Any

from torch import nn
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler
from torch.optim.optimizer import register_optimizer_step_post_hook

from ...tensor import SecretTensor
from ...tensor.trace import Trace
from .function_variables import variables
from .held_objects import FUNCTIONS, HeldObject, held_objects, identical, unchanged
from .number_sources import GeneratorStates, is_iterator

# Attributes of a module that are compared.
SETTINGS = (bool, int, float, str, type(None), *FUNCTIONS)


class Environment:
    """The variables, modules and optimizers that a function used, and their state at that time."""

    def __init__(self, function: Callable[..., Any], arguments: Sequence[Any] = ()) -> None:
        """arguments: those that are no secrets."""
        self._function, self._arguments = function, arguments
        self.modules: list[nn.Module] = []
        self.optimizers: list[Optimizer] = []
        self._leaves: list[SecretTensor] = []
        self._followed: Set[int] = frozenset()
        self._recorded: list[Any] = []
        self._states: list[ModuleState | HeldObject] = []
        self._draws = False

    @contextmanager
    def observed(self, trace: Trace) -> Iterator[None]:
        """Collects the modules and optimizers that this thread uses, then records their state.

        Settings of optimizers that the trace follows are not compared.
        """
        _hook_optimizers()
        drawn = GeneratorStates(self._reached())
        found: dict[int, Any] = {}
        _local.found, handle = found, register_module_forward_pre_hook(_record)
        try:
            yield
        finally:
            handle.remove()
            _local.found = None
        self.modules = [x for x in found.values() if isinstance(x, nn.Module)]
        self.optimizers = [x for x in found.values() if isinstance(x, Optimizer)]
        self._leaves = self.parameters()
        self._followed = trace.followed_optimizers
        self._recorded = self._current()
        self._states = [*map(ModuleState, self.modules), *self._held_objects()]
        self._draws = drawn.have_changed()

    def schedulers(self) -> list[LRScheduler]:
        """Returns the schedulers that the function reaches from its variables."""
        found = [x for x in self._reached() if isinstance(x, LRScheduler)]
        return list({id(x): x for x in found}.values())

    def _held_objects(self) -> list[HeldObject]:
        """Returns the objects that the function, hooks, modules and arguments refer to."""
        hooks = [*_hooks(self.modules, self.optimizers), *self._hooks_of_gradients()]
        return held_objects([self._function, *hooks, *self._arguments, *self.modules])

    def _hooks_of_gradients(self) -> list[dict[int, Any] | None]:
        found = [(x._backward_hooks, x._post_accumulate_grad_hooks) for x in self._leaves]
        return [hooks for pair in found for hooks in pair]

    def _reached(self) -> Iterator[Any]:
        """Yields what those objects hold."""
        yield from self._arguments
        for one in self._held_objects():
            yield from one.children

    @property
    def obstacle(self) -> str | None:
        """Why a replay would not do what the function does, or None."""
        others = [one for one in self.optimizers if id(one) not in self._followed]
        if any("step" in state for one in others for state in one.state.values()):
            return "the optimizer counts its steps"
        if self._draws:
            return "it draws from a generator of Python or numpy"
        if any(map(is_iterator, self._reached())):
            return "it uses an iterator that was made outside"
        return None

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
        found: list[Any] = [*_all_variables(self._function), *self._hooks_of_gradients()]
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
        self._secrets = [x for x in self._parts if isinstance(x, SecretTensor)]
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
        return [x for held in (*parts, *_hooks_of(one)) if held for x in held.values()]

    def _required_gradients(self) -> list[bool]:
        return [x.requires_grad for x in self._secrets]


def _hooks(modules: Iterable[nn.Module], optimizers: Iterable[Optimizer]) -> Iterator[Any]:
    """Yields the functions that modules and optimizers call besides their own."""
    found = [held for one in modules for held in _hooks_of(one)]
    for each in optimizers:
        found += each._optimizer_step_pre_hooks, each._optimizer_step_post_hooks
    for held in found:
        yield from held.values()


def _hooks_of(module: nn.Module) -> tuple[dict[int, Any], ...]:
    forward = module._forward_pre_hooks, module._forward_hooks
    return *forward, module._backward_pre_hooks, module._backward_hooks


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
    elif isinstance(function, FunctionType):
        yield from variables(function)
    else:
        yield function  # an object that can be called


_local = threading.local()


@cache
def _hook_optimizers() -> None:
    """Registers a hook once and for ever: removing it could race with threads that call hooks."""
    register_optimizer_step_post_hook(_record)


def _record(value: Any, *_: Any) -> None:
    found = getattr(_local, "found", None)
    if found is not None:
        found[id(value)] = value
