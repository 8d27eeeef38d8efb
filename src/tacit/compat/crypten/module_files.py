"""Files of torch modules, read without running code of their own."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from torch.serialization import get_unsafe_globals_in_checkpoint, safe_globals

LAYERS = "torch.nn.modules."


@contextmanager
def readable(f: Any, classes: Iterable[type]) -> Iterator[None]:
    """Within the context torch reads the file also if it holds torch's layers and these classes.

    Anything else that the file names is refused by torch; see `weights_only` of its `load`.
    """
    named = get_unsafe_globals_in_checkpoint(f)
    if hasattr(f, "seek"):
        f.seek(0)
    layers = [_class_of(name) for name in named if name.startswith(LAYERS)]
    with safe_globals([*layers, *classes]):
        yield


def _class_of(name: str) -> type:
    module, _, own = name.rpartition(".")
    found: type = getattr(importlib.import_module(module), own)
    return found
