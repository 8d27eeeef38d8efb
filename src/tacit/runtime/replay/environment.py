"""What a function depends on beside its arguments and the secrets that it reads.

Seen are the variables of its surroundings that it names, the modules that it calls and the
optimizers that make a step in it. What those refer to in turn is not.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from types import CodeType
from typing import Any

from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook

from ...tensor import SecretTensor
from .buffers import equal

CONTAINERS = (list, tuple, dict, set)
MOST_COMPARED = 64  # elements of a list or dict; of a longer one, only its length


class Surroundings:
    """What was found while a function ran, and how it was then."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self.modules: list[nn.Module] = []
        self.optimizers: list[Optimizer] = []
        self._before: list[Any] = []

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Within, what this thread calls is found; in the end it is looked at."""
        _watch_optimizers()
        found: dict[int, Any] = {}
        _threads.found, handle = found, register_module_forward_pre_hook(_note)
        try:
            yield
        finally:
            handle.remove()
            _threads.found = None
        self.modules = [x for x in found.values() if isinstance(x, nn.Module)]
        self.optimizers = [x for x in found.values() if isinstance(x, Optimizer)]
        self._before = self._now()

    @property
    def counts(self) -> bool:
        """Whether an optimizer counts its steps."""
        return any("step" in state for one in self.optimizers for state in one.state.values())

    def parameters(self) -> list[SecretTensor]:
        """Those of the optimizers."""
        groups = [group["params"] for one in self.optimizers for group in one.param_groups]
        return [x for params in groups for x in params if isinstance(x, SecretTensor)]

    def is_same(self) -> bool:
        """Whether all is as it was."""
        now = self._now()
        return len(now) == len(self._before) and all(map(_alike, self._before, now))

    def _now(self) -> list[Any]:
        found: list[Any] = [*_variables(self._function)]
        for module in self.modules:
            found += [module.training, *module._parameters.values(), *module._buffers.values()]
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                found += [x for name, x in group.items() if name != "params"]
                found += group["params"]
            for state in optimizer.state.values():
                found += state.values()
        return [part for x in found for part in _parts(x)]


def _parts(thing: Any) -> Iterator[Any]:
    """A thing, and what a list or dict holds; of a secret, whether it takes part in gradients."""
    yield thing
    if isinstance(thing, SecretTensor):
        yield thing.requires_grad
    elif isinstance(thing, CONTAINERS):
        yield len(thing)
        if len(thing) <= MOST_COMPARED:
            yield from thing.values() if isinstance(thing, dict) else thing


def _alike(a: Any, b: Any) -> bool:
    """Whether it is still the same; whether a tensor was written to is for a trace to say."""
    if isinstance(a, tuple):
        return type(a) is type(b)  # its parts follow
    return a is b if isinstance(a, (*CONTAINERS, Tensor)) else equal(a, b)


def _variables(function: Any) -> Iterator[Any]:
    """What the variables hold that a function has from outside."""
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
            except ValueError:  # it is empty
                yield None
        outside = function.__globals__
        yield from (outside[name] for name in _names(code) if name in outside)
        yield from function.__defaults__ or ()
        yield from (function.__kwdefaults__ or {}).values()


@cache
def _names(code: CodeType) -> tuple[str, ...]:
    """The names outside that code may refer to."""
    inner = [one for one in code.co_consts if isinstance(one, CodeType)]
    return tuple(dict.fromkeys((*code.co_names, *(n for one in inner for n in _names(one)))))


_threads = threading.local()


@cache
def _watch_optimizers() -> None:
    """For good: other threads may be on their way through torch's list of hooks at any time."""
    register_optimizer_step_post_hook(_note)


def _note(thing: Any, *_: Any) -> None:
    found = getattr(_threads, "found", None)
    if found is not None:
        found[id(thing)] = thing
