"""Whatever the dealer does or suffers, both parties end in time and name it; and the other way.

Threads on a clock that the test drives, and processes over TLS for what only a process can suffer.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from tests.runtime.parties import Part, Stage
from tests.transport.parties import connected

from tacit import Session
from tacit.config import Config
from tacit.errors import Error, PeerClosed, PeerTimeout, ProtocolDesync, PublicMismatch
from tacit.runtime.launch.program import Program, open_session
from tacit.testing import ManualClock, until
from tacit.transport import Limits
from tacit.transport.local.memory import Mailbox
from tacit.transport.wire.tcp import Listener

CONFIG = Config(protocol="additive")
NAMES = ("alice", "bob", "dealer")
DEALER = 2
LONG = 60.0
BUSY = 60.0


class Members:
    """Two parties and a dealer as threads, on a clock that the test drives."""

    def __init__(
        self, main: Callable[[Session], Any], kind: str = "memory", **limits: float
    ) -> None:
        self.clock = ManualClock()
        self.meshes = connected(kind, 3, limits=Limits(**limits), clock=self.clock)  # type: ignore[arg-type]
        program = Program(main, (), {}, tuple(open_names()))
        self._pool = ThreadPoolExecutor(3)
        self._runs = [
            self._pool.submit(program.run, mesh, config=CONFIG, session_id=bytes(16))
            for mesh in self.meshes
        ]

    def await_standstill(self, reached: threading.Semaphore) -> None:
        """Waits until all have reached a place, both parties wait, and one for the dealer alone."""
        for _ in self.meshes:
            assert reached.acquire(timeout=LONG)
        parties = self.meshes[:DEALER]
        until(
            lambda: (
                all(mesh.waiting_for for mesh in parties)
                and any(mesh.waiting_for == (DEALER,) for mesh in parties)
            )
        )

    def queued(self) -> int:
        """How many bytes of the dealer wait for a party, in memory of ours."""
        boxes = [mesh._poller for mesh in self.meshes[:DEALER]]
        if isinstance(boxes[0], Mailbox):
            return max(box.queued[DEALER] for box in boxes)
        return max(self.meshes[DEALER].channel(rank)._sender._queued for rank in range(DEALER))

    def end(self) -> list[Any]:
        """What each member returned or raised, by rank."""
        found = [run.exception(LONG) or run.result() for run in self._runs]
        self._pool.shutdown()
        return found


def open_names() -> list[str]:
    from tacit.protocols import helper_names

    return [*NAMES[:DEALER], *helper_names(Config(protocol="additive"))]


def multiply(session: Session) -> torch.Tensor:
    x = session.share(torch.tensor([1.5, -2.0]), owner=0)
    y = session.share(torch.tensor([3.0, 4.0]), owner=1)
    return session.reveal(x * y)


def check_named(found: list[Any], *kinds: type[Error]) -> None:
    for error in found[:DEALER]:
        assert isinstance(error, kinds), repr(error)
        assert error.party == DEALER, error
        assert "the dealer" in str(error), error
        assert "party 2" not in str(error), error


# The dealer, as a thread --------------------------------------------------------------------------


def test_a_dealer_that_raises():
    def main(session: Session) -> Any:
        multiply(session)
        if session.is_dealer:
            raise LookupError("the cupboard is bare")
        return multiply(session)

    found = Members(main, deadline=LONG).end()
    check_named(found, PeerClosed)
    assert isinstance(found[DEALER], LookupError)
    assert "ended the run" in str(found[0])
    assert "cupboard" not in str(found[0])


def test_a_dealer_that_answers_nothing():
    """It is alive, as a thread is, and is waited for up to `patience`, not longer."""
    reached, over = threading.Semaphore(0), threading.Event()

    def main(session: Session) -> Any:
        multiply(session)
        reached.release()
        if session.is_dealer:
            assert over.wait(LONG)
        return multiply(session)

    members = Members(main, deadline=5.0, patience=20.0)
    members.await_standstill(reached)
    members.clock.advance(21.0)
    until(lambda: all(run.done() for run in members._runs[:DEALER]))
    over.set()
    found = members.end()
    check_named(found, PeerTimeout, PeerClosed)
    assert isinstance(found[DEALER], Error)


def test_a_dealer_that_is_late_is_waited_for():
    reached, over = threading.Semaphore(0), threading.Event()

    def main(session: Session) -> Any:
        reached.release()
        if session.is_dealer:
            assert over.wait(LONG)
        return multiply(session)

    members = Members(main, deadline=5.0, patience=100.0)
    members.await_standstill(reached)
    members.clock.advance(50.0)
    over.set()
    found = members.end()
    assert torch.allclose(found[0], torch.tensor([4.5, -8.0]), atol=1e-3)
    assert found[DEALER].isnan().all()


def end_early(session: Session) -> None:
    session.share(torch.ones(2), owner=0)


def add_more(session: Session) -> Any:
    x = session.share(torch.tensor([1.5, -2.0]), owner=0)
    return session.reveal(x.relu() * x)


@pytest.mark.parametrize("other", [end_early, add_more])
def test_a_dealer_that_runs_another_program(other):
    def main(session: Session) -> Any:
        return other(session) if session.is_dealer else multiply(session)

    found = Members(main, deadline=LONG).end()
    check_named(found, PublicMismatch, ProtocolDesync, PeerClosed)
    assert isinstance(found[DEALER], Error)


# A party, while the dealer is ahead ---------------------------------------------------------------


MOST = 1 << 20  # bytes that may wait for a party
ELEMENTS = 1 << 14


@pytest.mark.parametrize("kind", ["memory", "tls"])
def test_a_dealer_runs_ahead_within_bounds_and_hears_of_the_end(kind):
    """Both parties stand still: the dealer deals until the queue is full, and then waits."""
    stand, dealt = threading.Event(), []

    def main(session: Session) -> Any:
        x = session.share(torch.ones(ELEMENTS), owner=0)
        if not session.is_dealer:
            assert stand.wait(LONG)
            raise LookupError("of the party")
        for count in range(sys.maxsize):
            x = (x * x).relu()
            dealt.append(count)

    members = Members(main, kind, deadline=LONG, max_queued_bytes=MOST)
    until(lambda: members.queued() > MOST // 2)
    before = -1
    while before != len(dealt):  # until it makes no progress between two looks
        before = len(dealt)
        time.sleep(0.3)
    assert members.queued() <= MOST
    assert 0 < len(dealt) < 1000  # what it sent fits the queue, and a system's buffers under TLS
    stand.set()
    found = members.end()
    assert isinstance(found[DEALER], PeerClosed), found
    assert found[DEALER].party in (0, 1)
    assert "ended the run" in str(found[DEALER])


# Processes ----------------------------------------------------------------------------------------


def take_part(part: Part, listener: Listener) -> None:
    """An honest member: products for ever; says so after the third."""
    with part.connect(listener) as mesh:
        listener.close()
        session = open_session(mesh, config=CONFIG, session_id=bytes(16), names=open_names())
        with session:
            for count in range(sys.maxsize):
                multiply(session)
                if count == 2:
                    part.link.send("talking")


@pytest.fixture
def stage():
    started = []

    def start(limits: Limits, behaviour=take_part) -> Stage:
        started.append(Stage(behaviour, limits=limits, others=take_part))
        for rank in range(3):
            assert started[-1].hear(rank) == "talking"
        return started[-1]

    yield start
    for one in started:
        one.end()


def check_reports(stage: Stage, kinds: set[str], *, since: float, within: float) -> None:
    for rank in stage.honest:
        report = stage.report(rank)
        assert report.error in kinds, report
        assert report.party == DEALER, report
        assert "the dealer" in report.message, report
        assert report.time - since < within, report
        assert report.left == [], report


@pytest.mark.full("a dealer that raises or is silent, in threads")
def test_a_dealer_that_is_killed(stage):
    members = stage(Limits(deadline=240.0, connect_deadline=240.0))
    since = time.monotonic()
    members.processes[DEALER].kill()
    check_reports(members, {"PeerClosed"}, since=since, within=BUSY)


@pytest.mark.full("test_failures.test_a_frozen_party freezes a member; the test before names it")
def test_a_dealer_that_freezes(stage):
    members = stage(Limits(deadline=3.0, connect_deadline=240.0))
    since = time.monotonic()
    os.kill(members.processes[DEALER].pid, signal.SIGSTOP)
    check_reports(members, {"PeerTimeout", "PeerClosed"}, since=since, within=3.0 + BUSY)
    os.kill(members.processes[DEALER].pid, signal.SIGCONT)
    assert members.report(DEALER).error == "PeerClosed"


@pytest.mark.full(
    "test_failures.test_a_killed_party kills a member; the dealer hears it in threads"
)
def test_a_party_that_is_killed_ends_the_dealer(stage):
    members = stage(Limits(deadline=240.0, connect_deadline=240.0))
    members.processes[0].kill()
    for rank in (1, DEALER):
        report = members.report(rank)
        assert (report.error, report.party) == ("PeerClosed", 0), report
        assert "party 0 (alice)" in report.message
