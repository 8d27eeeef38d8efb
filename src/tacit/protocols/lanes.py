"""Lanes: the calls of a function that a party has in flight, of which one runs at any moment.

Each lane is a thread. It runs until it has sent its messages of a round (`drive` in `steps.py`),
and lets the next lane run before it waits for what it receives: so messages of one lane are on
their way while another lane computes.

NOTE [one order]: at every party an operation yields the same rounds in the same order. Lanes take
turns at rounds, empty ones too, in a fixed order. So all parties begin and finish the rounds of all
lanes in one order, draw from their streams in it, and add to their public records in it, without
agreeing on anything.
"""

from __future__ import annotations

import contextvars
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from threading import Lock, Thread

from ..transport.stats import PausedScopes
from .context import CallState
from .core import ProtocolCore

JOIN_SECONDS = 1.0


class _Turn:
    """A thread that takes turns: what is kept for it while others run, and what wakes it.

    roles: by how many parties its roles are turned.
    """

    scopes: PausedScopes

    def __init__(self, roles: int, state: CallState) -> None:
        self.roles, self.state = roles, state
        self.thread: Thread | None = None
        self._asleep = Lock()
        self._asleep.acquire()

    def sleep(self) -> None:
        """Waits until `wake` is called, once for each call."""
        self._asleep.acquire()

    def wake(self) -> None:
        """Starts the thread, or ends its sleep."""
        if self.thread is not None and self.thread.ident is None:
            self.thread.start()
        else:
            self._asleep.release()


class Lanes:
    """The lanes of one party, and the thread that they work for, the caller.

    work: what each lane does; it raises nothing but what `pass_on` and `return_to_caller` do.
    turns_roles: whether each lane has the roles of the one before, turned by one party.
    """

    def __init__(
        self, protocol: ProtocolCore, count: int, work: Callable[[], None], *, turns_roles: bool
    ) -> None:
        self._protocol, self._context = protocol, protocol.context
        self._work = work
        self._ended = self._is_alone = False
        self._caller = self._running = _Turn(0, self._context.state)
        self._waiting: deque[_Turn] = deque()  # lanes, in the order of their next turns
        for number in range(count):
            turn = _Turn(number % protocol.num_turns if turns_roles else 0, CallState(lanes=self))
            turn.scopes = PausedScopes([*self._context.mesh.stats.path], [], None)
            run = contextvars.copy_context().run
            name = f"tacit-lane-{number}"
            turn.thread = Thread(target=run, args=(self._run,), name=name, daemon=True)
            self._waiting.append(turn)
        self._context.parked.add(self)

    @property
    def running(self) -> Hashable:
        """Identifies the thread that runs."""
        return self._running

    @property
    def ended(self) -> bool:
        """Whether lanes are to end where they are."""
        return self._ended

    def run(self) -> None:
        """Lets the lanes run until one returns to the caller, or all are done."""
        if self._waiting:
            self._switch_to(self._waiting.popleft())

    def pass_on(self) -> None:
        """Lets the next lane run; returns when it is this one's turn again."""
        if self._waiting and not self._is_alone:
            self._waiting.append(self._running)
            self._switch_to(self._waiting.popleft())

    def return_to_caller(self) -> None:
        """Lets the caller run; returns in the next turn of this lane."""
        self._waiting.append(self._running)
        self._switch_to(self._caller)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Within, no other lane runs."""
        before, self._is_alone = self._is_alone, True
        try:
            yield
        finally:
            self._is_alone = before

    def end(self) -> None:
        """Ends all lanes: each raises SystemExit where it waits. What they began is not finished.

        All parties do so at the same point, or the run ends.
        """
        self._ended = True
        self._context.parked.discard(self)
        threads = [turn.thread for turn in self._waiting if turn.thread and turn.thread.ident]
        for turn in self._waiting:
            if turn.thread in threads:
                turn.wake()
        for thread in threads:
            thread.join(JOIN_SECONDS)
        self._waiting.clear()

    def _switch_to(self, other: _Turn) -> None:
        """Lets another thread run until it lets this one run again."""
        if self._ended:
            raise SystemExit
        own, interpreter = self._running, self._context.mesh.interpreter
        self._put_aside(own)
        self._running = other
        interpreter.release()
        try:
            other.wake()
            own.sleep()
        finally:
            interpreter.acquire()
        if self._ended:
            raise SystemExit
        self._take_up(own)

    def _put_aside(self, own: _Turn) -> None:
        own.state, own.scopes = self._context.state, self._context.mesh.stats.pause()
        if own is self._caller:  # what lanes spend is part of the caller's scopes
            own.scopes = own.scopes._replace(at=None)
        self._protocol.turn_roles(-own.roles)

    def _take_up(self, own: _Turn) -> None:
        self._context.mesh.move_to_this_thread()
        self._context.state = own.state
        self._context.mesh.stats.resume(own.scopes)
        self._protocol.turn_roles(own.roles)

    def _run(self) -> None:
        """The body of a lane's thread: the work, then the next turn, without a return."""
        own, interpreter = self._running, self._context.mesh.interpreter
        interpreter.acquire()
        try:
            self._take_up(own)
            self._work()
        except SystemExit:
            return
        finally:
            interpreter.release()
        self._put_aside(own)
        self._running = self._waiting.popleft() if self._waiting else self._caller
        self._running.wake()
