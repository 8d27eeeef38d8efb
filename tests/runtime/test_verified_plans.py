"""Plans of a protocol that compares what its parties know before each reveal."""

import pytest
import torch
from tests.protocols.quad_cheats import hidden
from tests.runtime.pretended_gpu import pretended, pretended_own
from tests.tiers import FULL

from tacit.errors import CheatingDetected
from tacit.testing import Corruption, manipulations_of, messages_of, run_corrupted

__all__ = ["pretended", "pretended_own"]

XS = torch.randn(6, 5, generator=torch.Generator().manual_seed(8))
SETTINGS = {"protocol": "quad", "parties": 4}
READY = "the next call is a replay"


def one_sum(session):
    return lambda x: session.reveal((x.relu() * x).sum())


def three_reveals(session):
    def function(x):
        squares = x * x
        cubes = squares * x
        return session.reveal(squares), session.reveal(x > 0, to=1), session.reveal(cubes.sum())

    return function


def replayed(make):
    """A program of which the last call is a replay that opens something."""

    def program(session):
        function = session.repeated(make(session))
        x = session.share(XS[0], owner=0)
        for _ in range(3):
            function(x)
        assert len(function.recordings) == 1, function.summary()
        yield READY
        found = function(x)
        assert function.recordings[0].num_replays == 1
        yield from found if isinstance(found, tuple) else [found]

    return program


def expected(make):
    class Plain:
        def reveal(self, x, to=None):
            return x

    found = make(Plain())(XS[0])
    return found if isinstance(found, tuple) else (found,)


def is_right(value, wanted):
    return value is None or torch.allclose(value.float(), wanted.float(), atol=5e-3, rtol=0)


def sent_in_replays(make):
    return [one for one in messages_of(replayed(make), **SETTINGS) if "replay" in one.operation]


def some(messages, most):
    """Every so many of them, twice as many in the full tier."""
    return messages[:: -(-len(messages) // (2 * most if FULL else most))]


@pytest.mark.parametrize("make", [one_sum, three_reveals])
def test_a_replay_opens_what_a_call_opens(make):
    for ending in run_corrupted(replayed(make), None, **SETTINGS):
        assert ending.error is None
        ready, *opened = ending.opened
        assert ready == READY
        assert len(opened) == len(expected(make))
        assert all(map(is_right, opened, expected(make)))


def test_nothing_is_opened_if_a_message_before_was_changed():
    """Not even by the party that changed it, which goes on when the others find it out."""
    sent = sent_in_replays(one_sum)
    last = max(one.step for one in sent)
    before = [one for one in sent if one.step < last]
    assert len(before) > 20
    for one in some(before, 12):
        corruption = Corruption(one.party, manipulations_of(one)[:1], deviation=hidden)
        endings = run_corrupted(replayed(one_sum), corruption, **SETTINGS)
        assert all(ending.opened == (READY,) for ending in endings), one
        assert endings[one.party].changed
        honest = [ending for rank, ending in enumerate(endings) if rank != one.party]
        assert all(ending.error is CheatingDetected for ending in honest), one


@pytest.mark.parametrize("make", [one_sum, three_reveals])
def test_no_honest_party_opens_a_wrong_number(make):
    sent = sent_in_replays(make)
    assert len(sent) > 20
    for one in some(sent, 16):
        for how in manipulations_of(one)[:: 3 if FULL else 5]:
            corruption = Corruption(one.party, (how,), deviation=hidden)
            endings = run_corrupted(replayed(make), corruption, **SETTINGS, deadline=2.0)
            honest = [ending for rank, ending in enumerate(endings) if rank != one.party]
            if endings[one.party].changed:
                assert any(ending.error for ending in honest), (one, how)
            for ending in honest:
                assert all(map(is_right, ending.opened[1:], expected(make))), (one, how)


@pytest.mark.parametrize("gpu", ["pretended", "pretended_own"])
def test_on_gpus_a_function_that_opens_runs_as_it_is(gpu, request):
    def main(session):
        function = session.repeated(one_sum(session))
        found = [function(session.share(x, owner=0)) for x in XS]
        return torch.stack(found), function.recordings, function.summary()

    wanted = torch.stack([(x.relu() * x).sum() for x in XS])
    for found, recordings, told in request.getfixturevalue(gpu)(main, **SETTINGS):
        torch.testing.assert_close(found, wanted, atol=5e-3, rtol=0)
        assert not recordings
        assert "it opens what is verified before" in told
