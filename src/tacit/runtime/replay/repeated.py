"""Functions that are called again and again with arguments of the same form.

On a GPU a small operation takes less time than starting it from Python, three times over where
three parties share an interpreter. A repeated function runs as it is twice. If that shows that it
depends on secrets only, its third call is recorded, and from then on all that the parties do in it
is started at once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...fixedpoint.flatten import promise
from ...tensor.alias import Cell
from ...tensor.trace import Trace
from .buffers import Pattern, Structure
from .environment import Surroundings
from .recording import Recording, compute

if TYPE_CHECKING:
    from ..session import Session

log = logging.getLogger("tacit")

MOST_RECORDINGS = 8


class Repeated:
    """A function that may be recorded; called like the function."""

    def __init__(self, session: Session, function: Callable[..., Any]) -> None:
        self._session, self._function = session, function
        self._forms: list[Form] = []
        self._obstacle: str | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        session = self._session
        if self._obstacle is not None or session.mesh.meeting is None:
            return self._function(*args, **kwargs)
        if session.numbers.trace is not None:  # within another repeated function
            return self._function(*args, **kwargs)
        given = Structure.of((args, kwargs))
        found = next((one for one in self._forms if one.pattern.fits(given)), None)
        if found is None:
            found = Form(session, self._function, given)
            self._forms = [found, *self._forms][:MOST_RECORDINGS]
        result = found.call(given, args, kwargs)
        if found.obstacle is not None:
            self._obstacle, self._forms = found.obstacle, []
            if session.rank == 0:
                log.warning("repeated: %s: it runs as it is", self._obstacle)
        return result


class Form:
    """Calls with arguments of one form."""

    def __init__(self, session: Session, function: Callable[..., Any], given: Structure) -> None:
        self.pattern = Pattern(given)
        self.obstacle: str | None = None
        self._session, self._function = session, function
        self._is_ready = False  # kernels are compiled
        self._seen: tuple[Trace, Surroundings] | None = None  # of the call that was watched
        self._promises: list[tuple[Cell, int | None]] = []  # of what was written then
        self._recording: Recording | None = None

    def call(self, given: Structure, args: Any, kwargs: Any) -> Any:
        if not self._is_ready:
            result = self._function(*args, **kwargs)
            self._is_ready = True
            return result
        if self._seen is None or not self._agreed(self._fits(given)) or not self._takes_state():
            self._recording = None
            return self._watched(given, args, kwargs)
        if self._recording is not None:
            return self._recording.play(given)
        trace, surroundings = self._seen
        parameters = surroundings.parameters()
        self._recording = Recording(self._session, self._function, given, trace, parameters)
        result = self._recording.play(given)
        if not self._agreed(surroundings.is_same()):
            self.obstacle = "it changes a variable, a module or an optimizer's settings"
        return result

    def _agreed(self, opinion: bool) -> bool:
        return all(self._session.meet(opinion))

    def _fits(self, given: Structure) -> bool:
        """Whether what was watched, or recorded, is what the function would do now."""
        assert self._seen is not None
        _, surroundings = self._seen
        if not surroundings.is_same():
            return False
        return self._recording is None or self._recording.fits(given)

    def _takes_state(self) -> bool:
        """Whether what the function writes has the form that it had when it was watched."""
        if self._recording is not None:
            return self._recording.take_state()
        return all(promise(cell.value) == promised for cell, promised in self._promises)

    def _watched(self, given: Structure, args: Any, kwargs: Any) -> Any:
        """Runs the function, and finds what it uses and whether it can be recorded."""
        session, trace = self._session, Trace()
        surroundings, revealed = Surroundings(self._function), len(session.reveals)
        with surroundings.watched(), trace.on(session.numbers):
            result = self._function(*args, **kwargs)
            made = Structure.of(result)
            compute(made.values)
        obstacle = _obstacle(trace, given, made)
        if len(session.reveals) > revealed:
            obstacle = "it reveals"
        if surroundings.counts:
            obstacle = "the optimizer counts its steps"
        self.obstacle = next((one for one in session.meet(obstacle) if one), None)
        trace.forget(given.secrets)
        self._seen = trace, surroundings
        self._promises = [(cell, promise(cell.value)) for cell in trace.written()]
        return result


def _obstacle(trace: Trace, given: Structure, made: Structure) -> str | None:
    """Why a function that was watched cannot be recorded, if so."""
    written = {id(cell): cell for cell in trace.written()}
    if any(id(x._cell) in written for x in given.secrets):
        return "it writes to an argument"
    if any(x.requires_grad for x in given.secrets):
        return "an argument requires a gradient"
    if any(x.requires_grad for x in made.secrets):
        return "a result requires a gradient (detach it)"
    if not all(trace.is_made(x) for x in made.secrets):
        return "a result is an alias of a tensor from before (clone it)"
    if any(promise(trace.values[i]) != promise(cell.value) for i, cell in written.items()):
        return "what is promised of integers that it writes grows"
    return trace.obstacle
