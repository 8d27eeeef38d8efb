"""Objects that give another number each time: iterators, and generators of Python and numpy.

What they give is not seen in a replay, and may be the same in the calls that are compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from io import IOBase
from typing import Any

from numpy import ndarray
from torch.utils._pytree import tree_leaves

from .object_kinds import is_own

# Libraries and classes.
PYTHONS = "random", "Random"
NUMPYS, OLD_NUMPYS = ("numpy", "Generator"), ("numpy", "RandomState")


def is_iterator(x: Any) -> bool:
    """Whether an object is an iterator into which nobody can look; files are written to."""
    return isinstance(x, Iterator) and not isinstance(x, IOBase) and not is_own(type(x).__module__)


class GeneratorStates:
    """The states of the generators among objects at one time."""

    def __init__(self, objects: Iterable[Any]) -> None:
        self._generators = [x for x in objects if _kind(x) is not None]
        self._states = [*map(_state, self._generators)]

    def have_changed(self) -> bool:
        """Returns whether somebody has drawn since."""
        return self._states != [*map(_state, self._generators)]


def _kind(x: Any) -> tuple[str, str] | None:
    names = [
        (str(kind.__module__).partition(".")[0], kind.__qualname__) for kind in type(x).__mro__
    ]
    return next((name for name in names if name in (PYTHONS, OLD_NUMPYS, NUMPYS)), None)


def _state(generator: Any) -> list[Any]:
    kind = _kind(generator)
    if kind == NUMPYS:
        state = generator.bit_generator.state
    elif kind == OLD_NUMPYS:
        state = generator.get_state(legacy=False)
    else:
        try:
            state = generator.getstate()
        except NotImplementedError:  # the system's has none, and is always another
            state = object()
    return [x.tobytes() if isinstance(x, ndarray) else x for x in tree_leaves(state)]
