"""Whatever goes wrong, every party ends in time with the same story, and nothing is left over."""

from __future__ import annotations

import re
import time
from dataclasses import replace

import pytest
import torch
from tests.transport.parties import KINDS, run

from tacit.errors import FrameRejected, PeerClosed, PeerTimeout, ProtocolDesync
from tacit.transport import Limits, Mesh, Spec

pytestmark = pytest.mark.parametrize("kind", KINDS)

ONE = [Spec((1,), torch.int64)]
SHORT = Limits(deadline=0.5, patience=0.5, connect_deadline=5.0)


def test_different_operations_are_named(kind: str) -> None:
    def program(mesh: Mesh) -> None:
        peer = 1 - mesh.rank
        mesh.exchange({peer: [torch.zeros(1).long()]}, {peer: ONE}, operation=40 + mesh.rank)

    errors = run(kind, program)
    assert all(isinstance(error, ProtocolDesync | PeerClosed) for error in errors)
    found = next(error for error in errors if isinstance(error, ProtocolDesync))
    rank = errors.index(found)
    assert f"party {1 - rank} is at operation {41 - rank}" in str(found)
    assert f"party {rank} at operation {40 + rank}" in str(found)
    assert (found.party, found.operation) == (1 - rank, 40 + rank)


@pytest.mark.parametrize(
    "sent",
    [[torch.zeros(2).long()], [torch.zeros(1).int()], [torch.zeros(1).long()] * 2, []],
    ids=["shape", "dtype", "count", "nothing"],
)
def test_different_tensors_are_named(kind: str, sent: list[torch.Tensor]) -> None:
    def program(mesh: Mesh) -> None:
        if mesh.rank == 0:
            mesh.exchange({1: sent}, {})
            mesh.exchange({}, {1: ONE})
        else:
            mesh.exchange({}, {0: ONE})

    first, second = run(kind, program)
    assert isinstance(second, ProtocolDesync)
    assert "party 0 sent" in str(second)
    assert "party 1 expected int64[1]" in str(second)
    assert isinstance(first, PeerClosed)
    assert "party 0 ended the run at operation 0: ProtocolDesync, says party 1" in str(first)


def test_bytes_where_tensors_are_expected(kind: str) -> None:
    def program(mesh: Mesh) -> None:
        if mesh.rank == 0:
            mesh.exchange_bytes({1: b"x"}, ())
        else:
            mesh.exchange({}, {0: ONE})

    assert "party 0 sent bytes, party 1 expected int64[1]" in str(run(kind, program)[1])


def test_a_message_over_the_cap_is_refused(kind: str) -> None:
    limits = Limits(deadline=5.0, max_message_bytes=100, max_setup_bytes=10)

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
        error = run(kind, program, limits=limits)[1]
        assert isinstance(error, FrameRejected)
        assert name in str(error)
        assert error.party == 0


def test_an_exception_reaches_everybody_as_a_type_name(kind: str) -> None:
    def program(mesh: Mesh) -> None:
        others = [peer for peer in range(3) if peer != mesh.rank]
        mesh.exchange({p: [torch.zeros(1).long()] for p in others}, dict.fromkeys(others, ONE))
        if mesh.rank == 2:
            raise KeyError("a secret value")
        mesh.exchange({}, {1 - mesh.rank: ONE})  # nobody waits for the party that fails

    started = time.monotonic()
    zero, one, two = run(kind, program, 3)
    assert time.monotonic() - started < 3
    assert isinstance(two, KeyError)
    for error in (zero, one):
        assert isinstance(error, PeerClosed)
        assert (error.party, error.operation) == (2, 0)
        assert "party 2 ended the run at operation 0: KeyError" in str(error)
        assert "secret" not in str(error)


def test_an_abort_overtakes_data_that_nobody_reads(kind: str) -> None:
    def program(mesh: Mesh) -> None:
        if mesh.rank == 0:
            mesh.exchange({1: [torch.zeros(1 << 22).long()]}, {})
            raise ZeroDivisionError
        time.sleep(0.3)
        mesh.exchange({0: [torch.zeros(1).long()]}, {}, operation=0)
        mesh.exchange({}, {0: ONE}, operation=0)

    started = time.monotonic()
    _, error = run(kind, program)
    assert time.monotonic() - started < 3
    assert isinstance(error, PeerClosed | ProtocolDesync)


def test_a_silent_peer_times_out_everywhere(kind: str) -> None:
    def program(mesh: Mesh) -> None:
        if mesh.rank == 2:
            time.sleep(1.5)
            mesh.exchange({}, {0: ONE})
        peer = 2 if mesh.rank == 0 else 0
        mesh.exchange({}, {peer: ONE})

    zero, one, two = run(kind, program, 3, limits=SHORT)
    assert isinstance(zero, PeerTimeout)
    assert zero.party == 2
    assert zero.operation == 0
    assert re.match(r"party 2 (is alive but )?sent nothing for 0\.\d s", str(zero))
    assert isinstance(one, PeerClosed)  # it waits for the one that waits for the silent one
    assert one.party == 2
    assert isinstance(two, PeerClosed)


def test_a_peer_that_takes_nothing_times_out(kind: str) -> None:
    limits = replace(SHORT, max_queued_bytes=1 << 20)

    def program(mesh: Mesh) -> None:
        if mesh.rank == 1:
            time.sleep(1.2)
            return
        for _ in range(20):
            mesh.exchange({1: [torch.zeros(1 << 21).long()]}, {})

    error = run(kind, program, limits=limits)[0]
    assert isinstance(error, PeerTimeout)
    assert error.party == 1


def test_a_party_that_is_held_back_still_hears_of_the_end(kind: str) -> None:
    limits = Limits(deadline=20.0, connect_deadline=5.0, max_queued_bytes=1 << 20)

    def program(mesh: Mesh) -> None:
        mesh.exchange_bytes({peer: b"" for peer in range(3) if peer != mesh.rank}, ())
        if mesh.rank == 0:
            for _ in range(20):
                mesh.exchange({1: [torch.zeros(1 << 21).long()]}, {})
        time.sleep(1.5 if mesh.rank == 1 else 0.2)
        raise KeyError if mesh.rank == 2 else SystemExit

    started = time.monotonic()
    error = run(kind, program, 3, limits=limits)[0]
    assert time.monotonic() - started < 4
    assert isinstance(error, PeerClosed)
    assert error.party == 2


def test_a_peer_that_has_closed_is_named(kind: str) -> None:
    def program(mesh: Mesh) -> None:
        if mesh.rank == 0:
            mesh.exchange({}, {1: ONE}, operation=9)

    error = run(kind, program)[0]
    assert isinstance(error, PeerClosed)
    assert (error.party, error.operation) == (1, 9)


def test_a_mesh_that_has_ended_says_so(kind: str) -> None:
    def program(mesh: Mesh) -> None:
        if mesh.rank == 1:
            return
        mesh.abort("Test")
        mesh.abort("Again")
        mesh.close()
        with pytest.raises(PeerClosed, match="was aborted: Test"):
            mesh.exchange({}, {})
        with pytest.raises(PeerClosed, match="was aborted: Test"):
            mesh.flush()

    assert run(kind, program)[0] is None


def test_a_reason_is_kept_short_and_plain(kind: str) -> None:
    def program(mesh: Mesh) -> None:
        if mesh.rank == 0:
            mesh.abort("Bad\n\x1b[31m" + "x" * 500)
        else:
            mesh.exchange({}, {0: ONE})

    message = str(run(kind, program)[1])
    assert message.isprintable()
    assert len(message) < 200
