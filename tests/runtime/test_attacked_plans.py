"""Plans while a party lies, fails or falls out of step: it is noticed, and no mask hides twice."""

from __future__ import annotations

from contextlib import suppress
from hashlib import sha256
from threading import get_ident

import pytest
import torch
from tests.protocols.members import parties_of
from tests.protocols.ranges import Use, hidden_twice, watch

import tacit
from tacit.errors import Error, PartyFailed, ProtocolError
from tacit.runtime.replay.plan import Begin, Draw, Exchange, Plan
from tacit.runtime.replay.told import MOST_CALLS, decode_outcome, decode_places

XS = torch.randn(8, 3, 5, generator=torch.Generator().manual_seed(4))
LIAR = 2


def three_squares(session):
    """The results of three independent products in a repeated function, called often enough."""
    function = session.repeated(lambda x: (x[0] * x[0], x[1] * x[1], x[2] * x[2]))
    found = []
    for x in XS:
        parts = function(session.share(x, owner=0))
        found.append(torch.stack([session.reveal(part) for part in parts]))
    return torch.stack(found), [one.num_replays for one in function.recordings]


# Lies ---------------------------------------------------------------------------------------------


def lying(session, change):
    """Lets a party send other texts; change: returns the text for a peer."""
    if session.rank == LIAR:
        mesh = session.mesh
        honest = mesh.exchange_bytes

        def exchange_bytes(send, receive, **where):
            sent = {peer: change(peer, data) for peer, data in send.items()}
            return honest(sent, receive, **where)

        mesh.exchange_bytes = exchange_bytes
    return three_squares(session)


def other_order(peer, data):
    """Of three rounds that do not depend on each other: another one needs the first at each peer.

    Then two honest parties would take each other's messages for those of other rounds.
    """
    lines = data.decode().splitlines()
    if len(lines) != 3 or not all(line.replace(" ", "").isdecimal() for line in lines):
        return data
    lines[1 + peer % 2] += " " + lines[0].split()[0]
    return "\n".join(lines).encode()


def other_kind(peer, data):
    return b"no plan" if data == b"PlanRecording" and peer == 0 else data


@pytest.mark.parametrize("change", [other_order, other_kind])
@pytest.mark.parametrize("protocol", ["replicated", "quad"])
def test_a_party_that_tells_others_different_things_is_noticed(protocol, change):
    settings = {"protocol": protocol, "parties": parties_of(protocol)}
    found, num_replays = tacit.run(three_squares, **settings)[0]
    torch.testing.assert_close(found, XS * XS, atol=1e-3, rtol=0)
    assert num_replays == [len(XS) - 3]
    with pytest.raises(PartyFailed, match="repeated differ"):
        tacit.run(lying, change, deadline=2.0, **settings)


@pytest.mark.parametrize("text", [b"\xff", b"", b"a;;", b";", b";;;", b"-1;;", b"1;;", b";;" * 9])
def test_a_party_that_tells_nothing_of_its_arguments_is_named(text):
    def change(peer, data):
        return text if data.count(b";") == 2 else data

    with pytest.raises(PartyFailed, match=f"party {LIAR} does not tell"):
        tacit.run(lying, change)


def test_places_and_outcomes():
    assert decode_places(1, "0 2;;1", 3, 3) == [{0, 2}, set(), {1}]
    assert decode_outcome(1, "17 ") == (17, "")
    assert decode_outcome(1, f"{MOST_CALLS - 1} it fails") == (MOST_CALLS - 1, "it fails")
    for text in ("", " ", "x ", "-1 ", "1_0 ", "٣ ", f"{MOST_CALLS} ", "9" * 5000):
        with pytest.raises(ProtocolError, match="party 1 does not tell how many"):
            decode_outcome(1, text)


# Out of step --------------------------------------------------------------------------------------


@pytest.fixture
def uses_of(monkeypatch):
    """A function that returns the list of all words that a party draws, in replays, too."""
    by_thread = {}

    def note(draw, first):
        key, number, block, skip, _, size = draw.args
        streams, uses = by_thread[get_ident()]
        [source] = [source for source, known in streams._ready.items() if known == key]
        start = 16 * block + skip
        uses.append(Use(sha256(key).hexdigest(), source, first + number, start, start + size))

    def run(replayed, first):
        for step in [*replayed.steps]:
            if isinstance(step, Draw):
                note(step, first)
            step(first)

    def watched(session):
        uses = watch(session)
        by_thread[get_ident()] = session.protocol.context.streams, uses
        return uses

    monkeypatch.setattr(Plan, "run", run)
    return watched


def fall_out(session, uses_of, how, found):
    """A party does something else than the others in the fifth call, and all go on then."""
    found[session.rank] = uses_of(session)
    own = torch.nn.Linear(5, 5)
    model = session.share(own, owner=0)
    function = session.repeated(lambda x: model(x).relu().detach())
    for i, x in enumerate(XS):
        if i == 5 and session.rank == 1:
            how(session, function)
        with suppress(Error, ArithmeticError):
            function(session.share(x, owner=0))
    session.mesh.compare()


def fail_half_way(session, function):
    """A step between two rounds of a replay fails once."""
    [specialization] = function._specializations
    steps = specialization.recordings[0].plan.steps
    rounds = [i for i, step in enumerate(steps) if isinstance(step, Begin | Exchange)]
    place = rounds[len(rounds) // 2]

    def fail(first):
        del steps[place]
        raise ArithmeticError("on purpose")

    steps.insert(place, fail)


def record_anew(session, function):
    function._specializations.clear()


def run_as_it_is(session, function):
    function._obstacle = "on purpose"


def skip_a_number(session, function):
    session.protocol.context.streams.new_number()


@pytest.mark.parametrize("how", [fail_half_way, record_anew, run_as_it_is, skip_a_number])
@pytest.mark.parametrize("protocol", ["trio", "replicated"])
def test_parties_that_fall_out_of_step_hide_no_two_messages_alike(protocol, how, uses_of):
    found: dict[int, list[Use]] = {}
    with pytest.raises(PartyFailed):
        tacit.run(fall_out, uses_of, how, found, protocol=protocol, deadline=2.0)
    by_party = [found[rank] for rank in sorted(found)]
    assert not hidden_twice(by_party)
    numbers = [{use.number for use in uses} for uses in by_party]
    assert min(map(len, numbers)) >= 8


def test_the_experiment_sees_masks_that_meet(monkeypatch, uses_of):
    """If replays took no new numbers, it would."""
    replay = Plan.run
    monkeypatch.setattr(Plan, "run", lambda self, first: replay(self, 3))
    found: dict[int, list[Use]] = {}
    with suppress(PartyFailed):
        tacit.run(fall_out, uses_of, lambda *_: None, found)
    assert hidden_twice([found[rank] for rank in sorted(found)])
