"""torch's table of operators, in which one thread at a time makes what is missing.

NOTE [operators by address]: torch makes the Python object of an operator when it is first asked for
it, and its compiled code keeps no reference: that of the table has to be enough. Two threads that
asked for the same operator at once made two objects, of which the table kept the later one; the
other was freed memory for all calls of the operator from then on. Parties that are threads ask for
the same operators at once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from torch._ops import OpOverloadPacket, _OpNamespace

_making = threading.RLock()  # making an operator may ask for others


def register() -> None:
    """Lets threads take turns, once for the process; called where this package is imported."""
    for kind in (_OpNamespace, OpOverloadPacket):
        kind.__getattr__ = _in_turn(kind.__getattr__)  # type: ignore[method-assign]


def _in_turn(make: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
    """What Python calls for an attribute that was not there when it looked."""

    def made(self: Any, name: str) -> Any:
        with _making:
            found = self.__dict__.get(name)
            return make(self, name) if found is None else found

    return made
