"""Quad: whoever changes a message is noticed by all others before they open anything.

Every attack is a run of its own, in which one party does something else than it should, and hides
it (`quad_cheats.hidden`). The seed of what is drawn is printed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import permutations
from random import Random
from typing import Any

import pytest
import torch
from tests.protocols import quad_mutants
from tests.protocols.quad_cheats import (
    PARTIES,
    SETTINGS,
    Attack,
    Reveals,
    answering_last,
    attacks,
    faults,
    forget_messages,
    hidden,
    messages,
    of_the_operation,
)
from tests.protocols.quad_programs import (
    OPERATIONS,
    PROGRAMS,
    expected,
    given,
    is_right,
)
from tests.tiers import FULL
from tests.transport.parties import connected
from torch import Tensor

import tacit
from tacit import Session, registry
from tacit.errors import CheatingDetected, ProtocolError, TransportError
from tacit.kernels import bit_planes
from tacit.protocols.clients import join_output, split_input
from tacit.protocols.quad.verification import TOTAL
from tacit.runtime.launch import local_run
from tacit.runtime.launch.threads import run_threads
from tacit.testing import (
    DELIVERY,
    WORDS,
    Corruption,
    Ending,
    Program,
    manipulations_of,
    messages_of,
    run_corrupted,
)

RINGS = pytest.mark.parametrize("ring", [64, 32])
MODULES = ("training", "sorting", "mixed")
LONG = pytest.mark.full("modules; test_a_changed_message_is_noticed runs an inference")
MOST = 80  # attacks on an operation: all but for those that are made of others


def drawn(found: Sequence[Attack], count: int) -> list[Attack]:
    """Some attacks, by a seed that is printed."""
    seed = torch.seed()
    print(f"seed {seed}: {count} of {len(found)}")
    return Random(seed).sample(list(found), min(count, len(found)))


def checked(chosen: Sequence[Attack], **settings: Any) -> None:
    found = faults(chosen, **settings)
    assert not found, f"{len(found)} of {len(chosen)}:\n" + "\n".join(found[:10])


# Every message -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "ring", [64, pytest.param(32, marks=pytest.mark.full("64 bits; the suite runs both"))]
)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[LONG] if name in MODULES else []) for name in PROGRAMS]
)
def test_honest_parties_open_what_is_right(name, ring):
    endings = run_corrupted(PROGRAMS[name], None, ring=ring, **SETTINGS)
    assert all(ending.error is None for ending in endings)
    for ending, plain in zip(endings, expected(name, ring), strict=True):
        assert len(ending.opened) == len(plain)
        assert all(map(is_right, ending.opened, plain))


@RINGS
def test_a_changed_message_is_noticed(ring):
    """Some of everything; the full tier tries all."""
    for name in Random(torch.seed()).sample(list(OPERATIONS), 6):
        checked(drawn(of_the_operation(name, ring), 8))
    checked(drawn(attacks("reveals", ring), 16))
    checked(drawn(attacks("inference", ring), 4))


def test_a_changed_message_is_noticed_by_checksums(monkeypatch):
    """With the hashes of parties that compute on a GPU."""
    monkeypatch.setattr(local_run, "cipher_for", lambda *_: "chacha20")
    forget_messages()  # there are others than with the hashes of CPUs
    found = [*of_the_operation("relu of a quotient", 64), *of_the_operation("share_bits", 64)]
    checked(drawn([one for one in found if one.how.kind in WORDS], 30 if FULL else 10))
    forget_messages()


@pytest.mark.full("all messages of every operation; test_a_changed_message draws some")
@pytest.mark.parametrize("name", OPERATIONS)
def test_every_changed_message_of_an_operation_is_noticed(name):
    wide, small = (of_the_operation(name, ring) for ring in (64, 32))
    checked(drawn([one for one in wide if one.how.kind in WORDS], MOST))
    checked(drawn([one for one in wide if one.how.kind in DELIVERY], 8))
    checked(drawn([one for one in small if one.how.kind in WORDS], MOST // 2))


@pytest.mark.full("several reveals and modules; test_a_changed_message draws some")
@RINGS
@pytest.mark.parametrize(
    ("name", "count"), [("reveals", 160), ("inference", 60), ("training", 40), ("sorting", 40)]
)
def test_changed_messages_of_a_program_are_noticed(name, count, ring):
    checked(drawn(attacks(name, ring, WORDS), count))
    checked(drawn(attacks(name, ring, DELIVERY), 8))


@pytest.mark.full("one program with everything; its parts are tested by themselves")
@RINGS
def test_changed_messages_of_a_mixed_program_are_noticed(ring):
    checked(drawn(attacks("mixed", ring, WORDS), 10))


def test_a_changed_message_is_noticed_over_tls(monkeypatch):
    info = replace(registry.TRANSPORTS["threads"], launcher=_over_tls)
    monkeypatch.setitem(registry._transports, "tls", info)
    found = [one for name in ("relu", "reveals") for one in attacks(name, 64, WORDS)]
    checked(drawn(found, 12 if FULL else 6), transport="tls")


_over_tls = partial(run_threads, connect=partial(connected, "tls"))


@pytest.mark.full("parties in processes; TLS between threads above")
def test_a_changed_message_is_noticed_between_processes():
    found = [one for one in attacks("inference", 64, WORDS) if one.sent.operation != "reveal"]
    checked(drawn(found, 1), transport="processes")


# Other programs ----------------------------------------------------------------------------------


def endings_of(corruption: Corruption, program: Program = PROGRAMS["relu"]) -> list[Ending]:
    """The endings of the honest parties."""
    found = run_corrupted(program, corruption, **SETTINGS)
    return [ending for rank, ending in enumerate(found) if rank != corruption.party]


def another_operand(session: Session) -> None:
    p: Any = session.protocol
    known = p.known
    p.known = lambda x: known(x) + 1
    hidden(session)


def another_share(session: Session) -> None:
    p: Any = session.protocol
    own = p.own_share
    p.own_share = lambda x: torch.zeros_like(own(x))
    hidden(session)


def other_words(session: Session) -> None:
    """Draws other masks than the others do."""
    streams: Any = session.protocol.context.streams
    fill = streams.fill

    def one_more(source: Any, words: Tensor, *where: int) -> None:
        fill(source, words, *where)
        words.add_(1)

    streams.fill = one_more
    hidden(session)


DEVIATIONS = {
    another_operand: ("mul", "relu", "is_zero"),
    another_share: ("mul", "bit_and of 3"),
    other_words: ("mul", "relu", "bit_and of 3", "truncate"),
}


@pytest.mark.parametrize("deviation", DEVIATIONS)
def test_a_party_that_computes_something_else_is_noticed(deviation):
    """Party 0 sends nothing but inputs, comparisons and reveals: what it computes is its own."""
    for party in PARTIES[1:]:
        for name in DEVIATIONS[deviation]:
            for ending in endings_of(Corruption(party, deviation=deviation), PROGRAMS[name]):
                assert ending == Ending((), CheatingDetected), (name, party)


def test_a_party_that_changes_everything_is_noticed():
    """Words of several messages at once, whatever errors add up to."""
    for party in PARTIES:
        found = messages("relu", 64)
        where = Reveals(found)
        own = [sent for sent in found if sent.party == party and not where.is_last(sent)]
        for seed in range(3):
            draw = Random(seed)
            chosen = draw.sample(own, len(own) // (1 + seed))
            changes = [draw.choice(manipulations_of(sent, WORDS)) for sent in chosen]
            for ending in endings_of(Corruption(party, tuple(changes), hidden)):
                assert ending == Ending((), CheatingDetected), changes


def test_a_party_that_answers_last_is_noticed():
    """It knows what all others tell it, but not what they tell each other."""
    for party in PARTIES:
        found = [*of_the_operation("share", 64), *of_the_operation("mul", 64)]
        own = [one for one in found if one.sent.party == party and one.how.kind in WORDS]
        assert not faults(drawn(own, 6), answering_last)


def not_multiplied(session: Session) -> Iterator[Tensor]:
    p = session.protocol
    yield p.reveal(p.add(given(p), given(p, 0)))


def nothing_opened(session: Session) -> Iterator[Tensor]:
    p = session.protocol
    p.mul(given(p), given(p, 0))
    yield from ()


@pytest.mark.parametrize("other", [not_multiplied, nothing_opened])
def test_a_party_that_runs_another_program_is_noticed(other):
    for party in PARTIES:
        for ending in endings_of(Corruption(party, program=other), PROGRAMS["mul"]):
            assert ending.opened == ()
            assert ending.error is not None
            assert issubclass(ending.error, ProtocolError | TransportError)


def accusing_one(session: Session) -> None:
    """Makes a party send one other party a wrong number in every comparison."""
    mesh: Any = session.mesh
    exchange = mesh.exchange

    def accusing(send: Any, receive: Any, **where: Any) -> Any:
        if [list(specs) for specs in receive.values()] == [[TOTAL]] * 3:
            first = next(iter(send))
            send = {**send, first: [send[first][0] + 1]}
        return exchange(send, receive, **where)

    mesh.exchange = accusing


def test_a_comparison_that_fails_at_one_party_ends_the_run_for_all():
    for party in PARTIES:
        for ending in endings_of(Corruption(party, deviation=accusing_one)):
            assert ending == Ending((), CheatingDetected)


# Clients -----------------------------------------------------------------------------------------


def squared(messages: Sequence[Any], session: Session) -> Iterator[Tensor]:
    p = session.protocol
    yield p.for_client(p.square(p.from_client(messages[session.rank], limit=1 << 9)))


def test_a_client_that_gives_parties_different_parts_is_noticed():
    value = torch.tensor([3, -4])
    for part, party in permutations(range(4), 2):
        sent = split_input(value, "quad", 4)
        own = sent[party]
        if part in own.seeds:
            wrong = {**own.seeds, part: bytes(32)}
            sent[party] = type(own)(own.shape, own.bits, wrong, own.masked)
        else:
            sent[party] = type(own)(own.shape, own.bits, own.seeds, own.masked + 1)
        found = run_corrupted(partial(squared, sent), None, **SETTINGS)
        assert all(ending == Ending((), CheatingDetected) for ending in found)


def test_a_client_notices_a_wrong_result():
    value = torch.tensor([3, -4])
    program = partial(squared, split_input(value, "quad", 4))
    answers = [ending.opened[0] for ending in run_corrupted(program, None, **SETTINGS)]
    assert torch.equal(join_output(answers, "quad", 4), value * value)
    for party in PARTIES:
        wrong = [answer + (rank == party) for rank, answer in enumerate(answers)]
        with pytest.raises(CheatingDetected):
            join_output(wrong, "quad", 4)


def test_changed_messages_of_a_result_for_a_client_are_noticed():
    program = partial(squared, split_input(torch.tensor([3, -4]), "quad", 4))
    found = [one for one in tamperings(program) if one[0].shapes != ((4,),)]
    for sent, how in Random(1).sample(found, 30 if FULL else 8):
        endings = run_corrupted(program, Corruption(sent.party, (how,), hidden), **SETTINGS)
        cheater = endings.pop(sent.party)
        noticed = Ending((), CheatingDetected)
        assert not cheater.changed or endings == [noticed] * 3, f"{how} of {sent}"


def tamperings(program: Program) -> list[tuple[Any, Any]]:
    found = messages_of(program, **SETTINGS)
    return [(sent, how) for sent in found for how in manipulations_of(sent, WORDS)]


# Nothing is noticed where nothing is changed ------------------------------------------------------


def honest_operations(session: Session, repeats: int) -> int:
    """Operations on odd sizes and comparisons of all views; returns the number of calls."""
    p: Any = session.protocol
    for seed in range(repeats):
        for n in (1, 63, 64, 65, 100, 0):
            draw = torch.Generator().manual_seed(seed * 1000 + n)
            v = torch.randint(-100, 100, (n,), generator=draw).to(p.ring.dtype)
            x, y = (p.share(v, k % p.parties, limit=1 << 9) for k in (n, seed))
            b = p.share_bits(bit_planes(v, 1), (n + seed) % p.parties, v.shape)
            p.settled(p.mul(x, y, shift=3))
            p.truncate(x.divided(3), exact=False)
            p.bit_and(p.sign(x), p.is_zero(y), b)
            p.inject(b, p.mul(x, y))
            p.relu(x)
            p.refresh(b)
            p.verify()
            assert torch.equal(p.reveal(p.add(x, y)), v + v)
    return p.context.streams.number


@RINGS
def test_there_are_no_false_alarms(ring):
    """In 10,000 operations of honest parties, with both rings."""
    repeats = 60 if FULL else 6
    calls = tacit.run(honest_operations, repeats, parties=4, ring=ring, **SETTINGS)
    assert calls == [calls[0]] * 4
    assert calls[0] >= (5_000 if FULL else 500)


def beyond_their_range(session: Session) -> None:
    """Divisions of values that are larger than a division allows, with a bit and without."""
    p: Any = session.protocol
    quarter = 1 << (p.ring.bits - 2)
    edges = [quarter * k + d for k in (-2, -1, 0, 1) for d in (0, 1, quarter // 2, quarter - 1)]
    v = torch.tensor(edges, dtype=p.ring.dtype).repeat(40)
    x, b = p.share(v, 1, limit=5), p.share_bits(bit_planes(v, 1), 2, v.shape)
    for t in (1, 13, p.ring.bits - 2):
        p.truncate(x.divided(t))
        p.inject(b, x.divided(t))
    p.relu(x.divided(13))
    p.verify()


@RINGS
def test_a_value_beyond_its_range_is_no_false_alarm(ring):
    """Whoever gives such a value must not learn from the end of a run what it met."""
    tacit.run(beyond_their_range, parties=4, ring=ring, **SETTINGS)


# A quad with a fault is found --------------------------------------------------------------------


@pytest.mark.parametrize("name", quad_mutants.MUTANTS)
def test_a_mutant_of_quad_is_killed(name, monkeypatch):
    mutant = quad_mutants.MUTANTS[name]
    mutant.apply(monkeypatch)
    assert mutant.is_found()


@pytest.mark.full("the attacks without a fault; the tests above draw from the same")
def test_without_a_mutant_nothing_is_found(monkeypatch):
    monkeypatch.setattr(quad_mutants, "TRIES", 1)
    assert not any(mutant.is_found() for mutant in quad_mutants.MUTANTS.values())


def closed_early(session: Session) -> None:
    session.reveal(session.share(torch.ones(2), owner=3))
    session.close()
    session.close()


def test_a_session_that_is_closed_verifies_no_more():
    """Its end has verified; `tacit.run` and a second close find nothing left to do."""
    tacit.run(closed_early, parties=4, protocol="quad")
