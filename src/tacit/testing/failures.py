"""Checks of channels that fail: every party ends with the same cause. See `channels`.

No check waits for a deadline in real time: the clock stands still, or the check advances it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import torch

from ..errors import FrameRejected, PeerClosed, PeerTimeout, ProtocolDesync
from ..transport import Limits, Mesh, Spec
from .clock import ManualClock
from .exchanges import BIG, LONG, ONE, Start, one, peers

DEADLINE = Limits(deadline=5.0, patience=5.0)


def check_different_operations_are_named(start: Start) -> None:
    def program(mesh: Mesh) -> None:
        peer = 1 - mesh.rank
        mesh.exchange({peer: one()}, {peer: ONE}, operation=40 + mesh.rank)

    errors = start(program)
    assert all(isinstance(error, ProtocolDesync | PeerClosed) for error in errors), errors
    found = next(error for error in errors if isinstance(error, ProtocolDesync))
    rank = errors.index(found)
    assert f"party {1 - rank} is at operation {41 - rank}" in str(found)
    assert f"party {rank} at operation {40 + rank}" in str(found)
    assert (found.party, found.operation) == (1 - rank, 40 + rank)


def check_different_tensors_are_named(start: Start) -> None:
    number = torch.zeros(1).long()
    for sent in ([torch.zeros(2).long()], [number.int()], [number] * 2, []):

        def program(mesh: Mesh, sent: Any = sent) -> None:
            if mesh.rank == 0:
                mesh.exchange({1: sent}, {})
                mesh.exchange({}, {1: ONE})
            else:
                mesh.exchange({}, {0: ONE})

        first, second = start(program)
        assert isinstance(second, ProtocolDesync), second
        assert "party 0 sent" in str(second)
        assert "party 1 expected int64[1]" in str(second)
        assert isinstance(first, PeerClosed), first
        told = "party 0 ended the run at operation 0: ProtocolDesync, says party 1"
        assert told in str(first)


def check_bytes_instead_of_tensors_are_named(start: Start) -> None:
    def program(mesh: Mesh) -> None:
        if mesh.rank == 0:
            mesh.exchange_bytes({1: b"x"}, ())
        else:
            mesh.exchange({}, {0: ONE})

    assert "party 0 sent bytes, party 1 expected int64[1]" in str(start(program)[1])


def check_a_message_over_the_limit_is_refused(start: Start) -> None:
    limits = Limits(max_message_bytes=100, max_setup_bytes=10)

    def tensors(mesh: Mesh) -> None:
        if mesh.rank == 0:
            mesh.exchange({1: [torch.zeros(101, dtype=torch.uint8)]}, {})
        else:
            mesh.exchange({}, {0: [Spec((101,), torch.uint8)]})

    def setup(mesh: Mesh) -> None:
        if mesh.rank == 0:
            mesh.exchange_bytes({1: bytes(11)}, ())
        else:
            mesh.exchange_bytes({}, [0])

    for program, name in ((tensors, "max_message_bytes = 100"), (setup, "max_setup_bytes = 10")):
        error = start(program, limits=limits)[1]
        assert isinstance(error, FrameRejected), error
        assert name in str(error)
        assert error.party == 0


def check_an_exception_reaches_everybody_as_a_type_name(start: Start) -> None:
    def program(mesh: Mesh) -> None:
        others = peers(mesh)
        mesh.exchange({peer: one() for peer in others}, dict.fromkeys(others, ONE))
        if mesh.rank == 2:
            raise KeyError("a secret value")
        mesh.exchange({}, {1 - mesh.rank: ONE})  # nobody waits for the party that fails

    *told, raised = start(program, 3)
    assert isinstance(raised, KeyError)
    for error in told:
        assert isinstance(error, PeerClosed), error
        assert (error.party, error.operation) == (2, 0)
        assert "party 2 ended the run at operation 0: KeyError" in str(error)
        assert "secret" not in str(error)


def check_an_abort_overtakes_data_that_nobody_reads(start: Start) -> None:
    def program(mesh: Mesh) -> None:
        if mesh.rank == 0:
            mesh.exchange({1: [torch.zeros(4 * BIG).long()]}, {})
            raise ZeroDivisionError
        assert mesh.channel(0).last_word(LONG) is not None
        mesh.exchange({0: one()}, {}, operation=0)
        mesh.exchange({}, {0: ONE}, operation=0)

    assert isinstance(start(program)[1], PeerClosed | ProtocolDesync)


def check_a_silent_peer_times_out(start: Start) -> None:
    clock = ManualClock()

    def program(mesh: Mesh) -> None:
        if mesh.rank == 0:
            mesh.exchange({}, {1: ONE})
        while mesh.channel(0).last_word(0.1) is None:
            clock.advance(6.0)

    error = start(program, limits=DEADLINE, clock=clock)[0]
    assert isinstance(error, PeerTimeout), error
    assert (error.party, error.operation) == (1, 0)


def check_a_peer_that_takes_nothing_times_out(start: Start) -> None:
    clock, limits = ManualClock(), Limits(deadline=5.0, patience=5.0, max_queued_bytes=1 << 20)

    def program(mesh: Mesh) -> None:
        if mesh.rank == 1:
            while mesh.channel(0).last_word(0.1) is None:
                clock.advance(6.0)
            return
        for _ in range(20):
            mesh.exchange({1: [torch.zeros(BIG).long()]}, {})

    error = start(program, limits=limits, clock=clock)[0]
    assert isinstance(error, PeerTimeout), error
    assert error.party == 1


def check_a_party_that_is_held_back_hears_of_the_end(start: Start) -> None:
    """Party 0 sends more than party 1 takes; the failure of party 2 ends its wait."""
    over = threading.Event()

    def program(mesh: Mesh) -> None:
        try:
            mesh.exchange_bytes(dict.fromkeys(peers(mesh), b""), ())
            for _ in range(20 if mesh.rank == 0 else 0):
                mesh.exchange({1: [torch.zeros(BIG).long()]}, {})
        finally:
            if mesh.rank == 0:  # also if it hears of the end before it is held back
                over.set()
        if mesh.rank == 1:
            assert over.wait(LONG)
        raise KeyError if mesh.rank == 2 else SystemExit

    error = start(program, 3, limits=Limits(max_queued_bytes=1 << 20))[0]
    assert isinstance(error, PeerClosed), error
    assert error.party == 2


def check_a_peer_that_has_closed_is_named(start: Start) -> None:
    def program(mesh: Mesh) -> None:
        if mesh.rank == 0:
            mesh.exchange({}, {1: ONE}, operation=9)

    error = start(program)[0]
    assert isinstance(error, PeerClosed), error
    assert (error.party, error.operation) == (1, 9)


def check_a_mesh_that_has_ended_says_so(start: Start) -> None:
    def program(mesh: Mesh) -> list[str]:
        if mesh.rank == 1:
            return []
        mesh.abort("Test")
        mesh.abort("Again")
        mesh.close()
        return [_closed_error(lambda: mesh.exchange({}, {})), _closed_error(mesh.flush)]

    texts = start(program)[0]
    assert len(texts) == 2
    assert all("was aborted: Test" in text for text in texts)


def _closed_error(action: Callable[[], object]) -> str:
    try:
        action()
    except PeerClosed as error:
        return str(error)
    raise AssertionError("a mesh that has ended goes on")


def check_a_reason_is_short_and_printable(start: Start) -> None:
    def program(mesh: Mesh) -> None:
        if mesh.rank == 0:
            mesh.abort("Bad\n\x1b[31m" + "x" * 500)
        else:
            mesh.exchange({}, {0: ONE})

    message = str(start(program)[1])
    assert message.isprintable()
    assert len(message) < 200


CHECKS = (
    check_different_operations_are_named,
    check_different_tensors_are_named,
    check_bytes_instead_of_tensors_are_named,
    check_a_message_over_the_limit_is_refused,
    check_an_exception_reaches_everybody_as_a_type_name,
    check_an_abort_overtakes_data_that_nobody_reads,
    check_a_silent_peer_times_out,
    check_a_peer_that_takes_nothing_times_out,
    check_a_party_that_is_held_back_hears_of_the_end,
    check_a_peer_that_has_closed_is_named,
    check_a_mesh_that_has_ended_says_so,
    check_a_reason_is_short_and_printable,
)
