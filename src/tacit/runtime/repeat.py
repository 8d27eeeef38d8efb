"""Functions that are called again and again with arguments of the same form.

On a GPU a small operation takes less time than starting it from Python, three times over where
three parties share an interpreter. A repeated function runs as it is twice. If that shows that it
depends on secrets only, its third call is recorded, and from then on all that the parties do in it
is started at once.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook

from ..tensor.cell import Cell
from ..tensor.trace import Trace
from .recording import Recording, compute
from .rooms import Structure

if TYPE_CHECKING:
    from .session import Session

log = logging.getLogger("tacit")

RUNS_AS_IT_IS = 2  # the first compiles kernels, the second is watched
MOST_RECORDINGS = 8


class Repeated:
    """A function that may be recorded; called like the function."""

    def __init__(self, session: Session, function: Callable[..., Any]) -> None:
        self._session, self._function = session, function
        self._forms: list[Form] = []
        self._obstacle: str | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._obstacle is not None or self._session.mesh.meeting is None:
            return self._function(*args, **kwargs)
        given = Structure.of((args, kwargs))
        found = next((one for one in self._forms if one.given.is_like(given)), None)
        if found is None:
            found = Form(self._session, self._function, given)
            self._forms = [found, *self._forms][:MOST_RECORDINGS]
        result = found.call(given, args, kwargs)
        if found.obstacle is not None:
            self._obstacle, self._forms = found.obstacle, []
            if self._session.rank == 0:
                log.warning("repeated: %s: it runs as it is", self._obstacle)
        return result


class Form:
    """Calls with arguments of one form."""

    def __init__(self, session: Session, function: Callable[..., Any], given: Structure) -> None:
        self.given = given
        self.obstacle: str | None = None
        self._session, self._function = session, function
        self._calls = 0
        self._state: list[Cell] = []
        self._optimizers: list[tuple[Optimizer, list[Any]]] = []
        self._recording: Recording | None = None

    def call(self, given: Structure, args: Any, kwargs: Any) -> Any:
        self._calls += 1
        if self._calls < RUNS_AS_IT_IS:
            return self._function(*args, **kwargs)
        if self._calls == RUNS_AS_IT_IS:
            return self._watched(args, kwargs)
        if self._recording is None:
            self._recording = Recording(self._session, self._function, given, self._state)
        elif not all(self._session.meet(self._fits(given))):
            self._recording, self._calls = None, RUNS_AS_IT_IS
            return self._watched(args, kwargs)
        return self._recording.play(given)

    def _fits(self, given: Structure) -> bool:
        assert self._recording is not None
        same = all(_settings(one) == settings for one, settings in self._optimizers)
        return same and self._recording.fits(given)

    def _watched(self, args: Any, kwargs: Any) -> Any:
        """Runs the function, and finds what it writes and whether it can be recorded."""
        trace = Trace()
        with _steps_watched() as optimizers, trace.on(self._session.numbers):
            result = self._function(*args, **kwargs)
            compute(Structure.of(result).secrets)
        counts = any(
            name == "step" for one in optimizers for state in one.state.values() for name in state
        )
        obstacle = "the optimizer counts its steps" if counts else trace.obstacle
        self.obstacle = next((one for one in self._session.meet(obstacle) if one), None)
        self._state = trace.written()
        self._optimizers = [(one, _settings(one)) for one in optimizers]
        return result


@contextmanager
def _steps_watched() -> Iterator[list[Optimizer]]:
    """The optimizers that make a step in this thread meanwhile."""
    found: list[Optimizer] = []
    here = threading.get_ident()

    def note(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if threading.get_ident() == here and not any(optimizer is one for one in found):
            found.append(optimizer)

    handle = register_optimizer_step_post_hook(note)
    try:
        yield found
    finally:
        handle.remove()


def _settings(optimizer: Optimizer) -> list[Any]:
    """What a user may change from one step to the next, such as a learning rate."""
    return [
        {name: x for name, x in group.items() if name != "params"}
        for group in optimizer.param_groups
    ]
