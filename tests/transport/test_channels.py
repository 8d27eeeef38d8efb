"""Every kind of channel passes the channel suite."""

from __future__ import annotations

import threading
from functools import partial

import pytest
import torch
from tests.transport.parties import KINDS, connected, together

from tacit.errors import ConfigError, PeerClosed, PeerTimeout, ProtocolDesync
from tacit.testing import CHANNEL_CHECKS, ChannelSuite, ManualClock, until
from tacit.transport import Limits, Mesh, Spec


@pytest.mark.parametrize("check", CHANNEL_CHECKS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_channel(kind: str, check: str) -> None:
    assert ChannelSuite(partial(connected, kind)).run(check) == [check]


def test_a_check_that_does_not_exist_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match="no check is called nothing"):
        ChannelSuite(partial(connected, "memory")).run("nothing")


def test_a_chain_of_silence_leads_to_the_silent_party() -> None:
    """Party 1 waits for party 0, which waits for party 2, which is alive but silent."""
    clock, one = ManualClock(), [Spec((1,), torch.int64)]
    meshes = connected("memory", 3, limits=Limits(deadline=5.0, patience=5.0), clock=clock)

    def wait(mesh: Mesh) -> None:
        with mesh:
            mesh.exchange({}, {2 if mesh.rank == 0 else 0: one})

    def be_silent(mesh: Mesh) -> None:
        with mesh:
            until(lambda: all(other.waiting_for for other in meshes[:2]))
            clock.advance(6.0)
            assert mesh.channel(0).last_word(60.0) is not None

    zero, one_, _ = together(
        *(partial(p, m) for p, m in zip((wait, wait, be_silent), meshes, strict=True))
    )
    assert isinstance(zero, PeerTimeout)
    assert isinstance(one_, PeerClosed)
    assert zero.party == one_.party == 2


def test_parties_that_wait_for_each_other_after_another_has_ended_are_told_so() -> None:
    """Party 2 is done, and waits for the others' end: it will not help them."""
    clock, one = ManualClock(), [Spec((1,), torch.int64)]
    meshes = connected("memory", 3, limits=Limits(deadline=5.0, patience=100.0), clock=clock)
    meshes[2].compares_ends = True

    def wait(mesh: Mesh) -> None:
        with mesh:
            mesh.exchange({}, {1 - mesh.rank: one})

    def end(mesh: Mesh) -> None:
        with mesh:
            until(lambda: all(other.waiting_for for other in meshes[:2]))
            clock.advance(6.0)

    found = together(*(partial(p, m) for p, m in zip((wait, wait, end), meshes, strict=True)))
    assert any(isinstance(error, ProtocolDesync) for error in found[:2])
    assert all(isinstance(error, ProtocolDesync | PeerClosed) for error in found[:2])


def test_a_thread_that_computes_for_long_is_waited_for() -> None:
    clock, one = ManualClock(), [Spec((1,), torch.int64)]
    meshes = connected("memory", 2, limits=Limits(deadline=5.0, patience=100.0), clock=clock)

    def wait(mesh: Mesh) -> int:
        with mesh:
            [number] = mesh.exchange({}, {1: one})[1]
            return int(number)

    def compute(mesh: Mesh) -> None:
        with mesh:
            until(lambda: meshes[0].waiting_for)
            clock.advance(60.0)
            mesh.exchange({0: [torch.tensor([7])]}, {})

    assert together(partial(wait, meshes[0]), partial(compute, meshes[1])) == [7, None]


def test_the_end_of_a_living_peer_is_waited_for_no_longer_than_patience() -> None:
    clock = ManualClock()
    meshes = connected("memory", 2, limits=Limits(deadline=5.0, patience=100.0), clock=clock)
    meshes[0].compares_ends = True
    ended = threading.Event()

    def end(mesh: Mesh) -> None:
        mesh.close()
        ended.set()

    def go_on(mesh: Mesh) -> None:
        with mesh:
            assert mesh.channel(0).last_word(60.0) is not None
            clock.advance(60.0)
            assert not ended.wait(0.5)
            clock.advance(60.0)
            assert ended.wait(60.0)

    assert together(partial(end, meshes[0]), partial(go_on, meshes[1])) == [None, None]
