"""No words hide two messages: of one sender, of two, in step and out of step.

That each message is hidden by words of a stream that names its sender and its receiver is proved in
`test_security.py`; here the bytes of the streams are counted.
"""

from __future__ import annotations

from threading import Thread

import pytest
import torch
from tests.protocols import views
from tests.protocols.ranges import Use, differences, hidden_twice, overlaps, watch
from tests.protocols.views import OPERATIONS, SHIFT

import tacit
from tacit import Session
from tacit.errors import ProtocolError
from tacit.protocols import BitSum
from tacit.protocols.randomness import Stream, common_stream, mask_stream
from tacit.registry import PROTOCOLS

SECRET = [name for name, info in PROTOCOLS.items() if info.guarantees.private]
RINGS = pytest.mark.parametrize("ring", [64, 32])
EACH = pytest.mark.parametrize("protocol", SECRET)


# In step ----------------------------------------------------------------------------------------


def long_program(session: Session) -> list[Use]:
    """What this party draws in a program with everything."""
    uses = watch(session)
    for turn in range(3):
        p = views.rotated(session, turn)
        v = torch.arange(-100, 92, dtype=p.ring.dtype)
        for operation in OPERATIONS.values():
            operation(p, v)
        x, y, bit = views.shared(p, v), p.random(v.shape), p.random_bits(v.shape)
        with p.parallel():
            results = [p.mul(x, y), p.square(x), p.sign(x), p.inject(bit, x), p.random((3,))]
        with p.parallel():
            twice = p.mul(results[0], y, shift=SHIFT), p.mul(results[0], y, shift=SHIFT)
        p.inject_sums([bit, results[2]], p.add(*twice), [BitSum((1, 1), (1, 1))])
        p.reveal(p.add(*twice))
    return uses


def check_in_step(by_party: list[list[Use]]) -> None:
    """No party takes a word twice, none hides two messages, and holders draw the same."""
    for rank, uses in enumerate(by_party):
        assert all(rank in use.stream.holders for use in uses)
        assert not overlaps(uses), f"party {rank}"
    assert not hidden_twice(by_party)
    assert not differences(by_party)


@RINGS
@EACH
def test_no_word_is_drawn_twice_and_holders_draw_the_same(protocol, ring):
    by_party = tacit.run(long_program, protocol=protocol, ring=ring, fraction_bits=8)
    check_in_step(by_party)
    streams = {use.stream for uses in by_party for use in uses}
    assert {stream.sender for stream in streams} == {None, 0, 1, 2}


# Names ------------------------------------------------------------------------------------------


def test_a_stream_of_masks_is_one_of_its_sender_and_its_receivers():
    assert mask_stream("open", 1, 0, 2) == Stream(frozenset({0, 1}), "open", 1, (2,))
    streams = [
        *(mask_stream(use, *parties) for use in "ab" for parties in [(0, 1, 2), (1, 0, 2)]),
        common_stream("a", 0, 1),
    ]
    assert len({stream.label for stream in streams}) == len(streams)
    for parties in [(0, 1), (0, 1, 1), (0, 1, 0), (0, 0, 1), (0, 1, 2, 1)]:
        with pytest.raises(ProtocolError, match="cannot hide messages"):
            mask_stream("open", *parties)


# Threads ----------------------------------------------------------------------------------------


def two_threads(session: Session) -> list[object]:
    """What a second thread is told, while the first one goes on."""
    p, found = session.protocol, []

    def second() -> None:
        calls = [
            lambda: p.share(torch.arange(4), 0),
            lambda: p.random((4,)),
            lambda: p.refresh(x),
            lambda: session.reveal(total),
            lambda: torch.nn.functional.dropout(total),
            lambda: session.mesh.exchange({1 - session.rank % 2: [torch.arange(4)]}, {}),
            lambda: session.mesh.exchange_bytes({}, ()),
        ]
        for call in calls:
            with pytest.raises(ProtocolError) as caught:
                call()
            found.append((type(caught.value), caught.value.party, bool(caught.value.remedy)))

    x, total = p.share(torch.arange(4), 0), session.share(torch.ones(4), owner=1)
    number, sent = p.context.streams.number, session.stats.snapshot()
    thread = Thread(target=second)
    thread.start()
    thread.join()
    assert p.context.streams.number == number
    assert session.stats.take_back(sent).messages == 0
    return [found, p.reveal(x).tolist()]


@pytest.mark.parametrize("protocol", [*SECRET, "cleartext"])
def test_a_second_thread_is_refused_and_the_first_goes_on(protocol):
    for rank, (found, plain) in enumerate(tacit.run(two_threads, protocol=protocol)):
        assert found == [(ProtocolError, rank, True)] * 7
        assert plain == [0, 1, 2, 3]
