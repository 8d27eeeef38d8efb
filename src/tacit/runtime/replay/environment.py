"""What a function depends on besides its arguments and the secrets that it reads.

This covers the variables that it names, also in functions that it may call, with the objects that
it reaches from them (`held_objects.py`); the modules that it calls with their numbers, texts and
functions; and the optimizers that step in it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from contextlib import contextmanager
from functools import cache
from typing import Any

from torch import nn
from torch.nn.modules import module as module_hooks
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.optim import Optimizer
from torch.optim import optimizer as optimizer_hooks
from torch.optim.lr_scheduler import LRScheduler
from torch.optim.optimizer import register_optimizer_step_post_hook

from ...tensor import SecretTensor
from ...tensor.trace import Trace
from .buffers import is_same
from .held_objects import HeldMemory, HeldObject, HeldTensor, Reached, identical
from .identity_sweep import IdentitySweep
from .number_sources import GeneratorStates, is_iterator
from .object_kinds import FUNCTIONS
from .object_parts import OF_TENSORS, add_module

HOOKS_OF_GRADIENTS = ("_backward_hooks", "_post_accumulate_grad_hooks")
GLOBAL_HOOKS: tuple[dict[int, Any], ...] = (
    module_hooks._global_forward_pre_hooks,
    module_hooks._global_forward_hooks,
    module_hooks._global_backward_pre_hooks,
    module_hooks._global_backward_hooks,
    optimizer_hooks._global_optimizer_pre_hooks,
    optimizer_hooks._global_optimizer_post_hooks,
)
# Attributes of a module that are compared.
SETTINGS = (bool, int, float, str, type(None), *FUNCTIONS)


class InUse:
    """The modules and optimizers that a function used."""

    def __init__(self) -> None:
        self.modules: list[nn.Module] = []
        self.optimizers: list[Optimizer] = []

    @contextmanager
    def collected(self) -> Iterator[None]:
        """Collects those that this thread uses."""
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

    def parameters(self) -> list[SecretTensor]:
        """Returns their secret parameters."""
        found: list[Any] = [x for module in self.modules for x in module._parameters.values()]
        groups = [group["params"] for one in self.optimizers for group in one.param_groups]
        found += [x for params in groups for x in params]
        return list({id(x): x for x in found if isinstance(x, SecretTensor)}.values())


class Environment:
    """The variables, modules and optimizers that a function used, and their state at that time."""

    def __init__(self, function: Callable[..., Any], arguments: Sequence[Any] = ()) -> None:
        """arguments: those that are no secrets."""
        self._function, self._arguments = function, arguments
        self._in_use = InUse()
        self._leaves: list[SecretTensor] = []
        self._followed: Set[int] = frozenset()
        self._recorded: list[Any] = []
        self._states: list[ModuleState | HeldObject] = []
        self._memories: list[HeldMemory | HeldTensor] = []
        self._sweep = IdentitySweep()
        self._reached = self._look()
        self._draws = self._iterates = False

    @contextmanager
    def observed(self, trace: Trace) -> Iterator[None]:
        """Collects the modules and optimizers that this thread uses, then records their state.

        Settings of optimizers that the trace follows are not compared.
        """
        drawn = GeneratorStates(self._given_and_reached())
        with self._in_use.collected():
            yield
        self._leaves = self.parameters()
        self._followed = trace.followed_optimizers
        self._recorded = self._current()
        self._reached = reached = self._look(self._reached.names)
        self._states = [*map(ModuleState, self._in_use.modules), *reached.objects]
        self._memories = [x for x in reached.objects if isinstance(x, HeldMemory | HeldTensor)]
        self._sweep = self._whole_sweep()
        self._iterates = any(map(is_iterator, self._given_and_reached()))
        self._draws = drawn.have_changed()

    def schedulers(self) -> list[LRScheduler]:
        """Returns the schedulers that the function reaches from its variables."""
        found = [x for x in self._given_and_reached() if isinstance(x, LRScheduler)]
        return list({id(x): x for x in found}.values())

    def parameters(self) -> list[SecretTensor]:
        """Returns the secret parameters of the optimizers and modules."""
        return self._in_use.parameters()

    def _look(self, names: frozenset[str] = frozenset()) -> Reached:
        """Returns the objects that the function, hooks, modules and arguments refer to now."""
        modules = self._in_use.modules
        hooks = [*_hooks(modules, self._in_use.optimizers), *self._hooks_of_gradients()]
        return Reached([self._function, *hooks, *self._arguments, *modules], names)

    def _given_and_reached(self) -> Iterator[Any]:
        """Yields the arguments, and what the objects hold that were reached last."""
        yield from self._arguments
        for one in self._reached.objects:
            yield from one.children

    def _hooks_of_gradients(self) -> list[dict[int, Any] | None]:
        found = [(x._backward_hooks, x._post_accumulate_grad_hooks) for x in self._leaves]
        return [hooks for pair in found for hooks in pair]

    @property
    def obstacle(self) -> str | None:
        """Why a replay would not do what the function does, or None."""
        others = [one for one in self._in_use.optimizers if id(one) not in self._followed]
        if any("step" in state for one in others for state in one.state.values()):
            return "the optimizer counts its steps"
        if self._draws:
            return "it draws from a generator of Python or numpy"
        if self._iterates:
            return "it uses an iterator that was made outside"
        return self._reached.obstacle

    def is_unchanged(self) -> bool:
        """Returns whether everything is as it was recorded. Mostly all are the same objects."""
        if self._sweep.is_same() and all(memory.has_contents() for memory in self._memories):
            return True
        same_objects = all(state.is_unchanged() for state in self._states)
        if not (same_objects and _all_unchanged(self._recorded, self._current())):
            return False
        self._sweep.take()
        return True

    def _whole_sweep(self) -> IdentitySweep:
        """Returns all that is compared by identity, as it is now."""
        sweep = IdentitySweep()
        for state in self._states:
            state.add_to(sweep)
        for leaf in self._leaves:
            sweep.add_attributes(leaf, *OF_TENSORS)
            sweep.add_attributes(leaf, *HOOKS_OF_GRADIENTS)
        for optimizer in self._in_use.optimizers:
            sweep.add_object(optimizer)
            sweep.add_elements(optimizer.param_groups)
            for group in optimizer.param_groups:
                sweep.add_elements(group["params"])
                sweep.add_names(group, ["params"] if id(optimizer) in self._followed else group)
            sweep.add_mapping(optimizer._optimizer_step_pre_hooks)
            sweep.add_mapping(optimizer._optimizer_step_post_hooks)
            for held in (optimizer.state, *optimizer.state.values()):
                sweep.add_mapping(held)
        sweep.add_other(_global_hooks)
        sweep.take()
        return sweep

    def _current(self) -> list[Any]:
        """Returns all hooks of torch and of gradients, and the settings and state of optimizers."""
        found: list[Any] = [*_global_hooks(), *self._hooks_of_gradients()]
        for optimizer in self._in_use.optimizers:
            found += optimizer._optimizer_step_pre_hooks.values()
            found += optimizer._optimizer_step_post_hooks.values()
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
        same_attributes = identical(self._attributes, attributes) or _all_unchanged(
            _settings(self._attributes), _settings(attributes)
        )
        return (
            same_attributes
            and identical(self._parts, self._current_parts())
            and self._gradients == self._required_gradients()
        )

    def add_to(self, sweep: IdentitySweep) -> None:
        """Adds all that it holds to what is compared by identity."""
        add_module(sweep, self._module)
        for held in _hooks_of(self._module):
            sweep.add_mapping(held)
        for secret in self._secrets:
            sweep.add_attributes(secret, *OF_TENSORS)

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


def _global_hooks() -> list[Any]:
    """Returns the functions that torch calls around all modules and steps, but for our own."""
    found = [x for held in GLOBAL_HOOKS for x in [*held.values()]]
    return [x for x in found if x is not _record]


def _hooks_of(module: nn.Module) -> tuple[dict[int, Any], ...]:
    forward = module._forward_pre_hooks, module._forward_hooks
    return *forward, module._backward_pre_hooks, module._backward_hooks


def _settings(attributes: Iterable[Any]) -> list[Any]:
    return [x for x in attributes if isinstance(x, SETTINGS)]


def _all_unchanged(before: Sequence[Any], now: Sequence[Any]) -> bool:
    return len(before) == len(now) and all(map(is_same, before, now))


def _comparable(value: Any) -> Iterator[Any]:
    """Yields what to compare: the value, and requires_grad of a secret."""
    yield value
    if isinstance(value, SecretTensor):
        yield value.requires_grad


_local = threading.local()


@cache
def _hook_optimizers() -> None:
    """Registers a hook once and for ever: removing it could race with threads that call hooks."""
    register_optimizer_step_post_hook(_record)


def _record(value: Any, *_: Any) -> None:
    found = getattr(_local, "found", None)
    if found is not None:
        found[id(value)] = value
