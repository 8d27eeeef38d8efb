"""A plugin of pytest: new tensors lie in memory of malloc, whose bounds a sanitizer sees.

torch may have an allocator of its own, as it has on ARM: what lies behind a tensor is memory then,
too. PYTHONMALLOC=malloc has to be set, and the kernels have to lie beside the tests: an installed
build has no sanitizers. The references, which call torch alone, run without it.
"""

from __future__ import annotations

import ctypes
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map

from tacit.kernels.backend import load_native
from tacit.ring import reference


class MallocMemory(TorchDispatchMode):
    """Moves what an operation makes, but for views of what it is given."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        given = (x for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor))
        known = {x.untyped_storage()._cdata for x in given}
        moved: dict[int, Any] = {}

        def place(x: Any) -> Any:
            if type(x) is not Tensor or not x.is_cpu or not x.untyped_storage().nbytes():
                return x
            storage = x.untyped_storage()
            if storage._cdata in known:
                return x
            if storage._cdata not in moved:
                moved[storage._cdata] = of_malloc(storage)
            form = x.storage_offset(), x.shape, x.stride()
            return torch.empty(0, dtype=x.dtype).set_(moved[storage._cdata], *form)

        return tree_map(place, func(*args, **kwargs))


def of_malloc(storage: torch.UntypedStorage) -> torch.UntypedStorage:
    """The same bytes in memory of their exact size."""
    memory = (ctypes.c_char * storage.nbytes())()
    copy = torch.frombuffer(memory, dtype=torch.uint8).untyped_storage()
    copy.copy_(storage)
    return copy


def without_modes(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        with _disable_current_modes():
            return function(*args, **kwargs)

    return run


def pytest_configure(config: pytest.Config) -> None:
    native = load_native()
    path = Path(native.__file__ or "") if native else None
    assert path, "there are no compiled kernels"
    assert path.is_relative_to(config.rootpath), f"{path} are not the kernels with sanitizers"
    for found in pkgutil.iter_modules(reference.__path__):
        module = import_module(f"{reference.__name__}.{found.name}")
        for name, function in inspect.getmembers(module, inspect.isfunction):
            if function.__module__ == module.__name__:
                setattr(module, name, without_modes(function))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Iterator[None]:
    with MallocMemory():
        return (yield)
