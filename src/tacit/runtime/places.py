"""Where in a program this thread is: the module of a model, or else the user's line."""

from __future__ import annotations

from functools import lru_cache
from weakref import WeakKeyDictionary

from torch import nn

from ..errors.call_sites import Place, frame_at, users_place
from ..tensor.module_path import running_modules

ELSEWHERE = "elsewhere"
# By model and module; a model that the program drops is not kept, and neither are its shares.
_labels: WeakKeyDictionary[nn.Module, WeakKeyDictionary[nn.Module, str]] = WeakKeyDictionary()


def module_label() -> str | None:
    """Returns the innermost running module, such as "LeNet.conv1"; None if none runs."""
    running = running_modules()
    return _label(running[-1], running[0]) if running else None


def typed_module_label() -> str | None:
    """Returns the same with the class of a module inside a model: "LeNet.conv1 (Conv2d)"."""
    running = running_modules()
    if not running:
        return None
    label = _label(running[-1], running[0])
    return label if running[-1] is running[0] else f"{label} ({type(running[0]).__name__})"


def _label(model: nn.Module, module: nn.Module) -> str:
    known = _labels.setdefault(model, WeakKeyDictionary())
    found = known.get(module)
    if found is None:
        found = known[module] = _new_label(model, module)
    return found


def _new_label(model: nn.Module, module: nn.Module) -> str:
    name = type(model).__name__
    path = next((path for path, part in model.named_modules() if part is module), None)
    if path is None:
        return f"{name}, {type(module).__name__}"
    return f"{name}.{path}" if path else name


def line_label() -> str:
    """Returns the line of the user's program that runs, such as "job.py:12 in main"."""
    place = users_place()
    return ELSEWHERE if place is None else _line(place)


@lru_cache(maxsize=4096)
def _line(place: Place) -> str:
    return str(frame_at(place))


def label() -> str:
    """Returns the module that runs, or else the user's line."""
    return module_label() or line_label()
