"""Replicated sharing with verified products: whoever changes a message is noticed before a reveal.

As in `test_quad.py`, every attack is a run of its own, in which one of three parties hides what it
does. How likely a cheating party is to escape is measured with few gates and small buckets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import permutations
from math import comb
from random import Random
from typing import Any, NamedTuple

import pytest
import torch
from tests.protocols.quad_cheats import (
    Attack,
    answering_last,
    attacks,
    compares_views,
    faults,
    forget_messages,
    hidden,
    of_the_operation,
)
from tests.protocols.quad_programs import OPERATIONS, PROGRAMS, expected, given, is_right
from tests.protocols.test_quad import beyond_their_range, honest_operations
from tests.tiers import FULL
from tests.transport.parties import connected
from torch import Tensor

import tacit
from tacit import Session, registry
from tacit.errors import CheatingDetected, ProtocolError, TransportError
from tacit.protocols import MATMUL, MUL, Bilinear
from tacit.protocols.clients import join_output, split_input
from tacit.protocols.cost import Cost
from tacit.protocols.steps import Steps, drive, together
from tacit.protocols.verified import buckets, coin, reduction
from tacit.protocols.verified.buckets import Plan, bucket_plan
from tacit.protocols.verified.coin import Coin, toss
from tacit.runtime.launch import local_run
from tacit.runtime.launch.threads import run_threads
from tacit.testing import DELIVERY, WORDS, Corruption, Ending, Program, run_corrupted

PROTOCOL = "replicated-malicious"
SETTINGS = {"protocol": PROTOCOL, "fraction_bits": 8}
PARTIES = range(3)
RINGS = pytest.mark.parametrize("ring", [64, 32])
INPUTS = ("share", "share_bits")
MODULES = ("training", "sorting", "mixed")
LONG = pytest.mark.full("modules; test_a_changed_message_is_noticed runs an inference")
NOTICED = Ending((), CheatingDetected)


def drawn(found: Sequence[Attack], count: int) -> list[Attack]:
    """Some attacks, by a seed that is printed. A changed input is another input, and no attack."""
    seed, found = torch.seed(), [one for one in found if one.sent.operation not in INPUTS]
    print(f"seed {seed}: {count} of {len(found)}")
    return Random(seed).sample(found, min(count, len(found)))


def checked(chosen: Sequence[Attack], **settings: Any) -> None:
    found = faults(chosen, **settings)
    assert not found, f"{len(found)} of {len(chosen)}:\n" + "\n".join(found[:10])


def attacks_on(name: str, ring: int, kinds: Sequence[str] = (*WORDS, *DELIVERY)) -> list[Attack]:
    return attacks(name, ring, kinds, protocol=PROTOCOL)


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
    for ending, plain in zip(endings, expected(name, ring, 3), strict=True):
        assert len(ending.opened) == len(plain)
        assert all(map(is_right, ending.opened, plain))


@RINGS
def test_a_changed_message_is_noticed(ring):
    """Some of everything, of operations and of their verification; the full tier tries more."""
    for name in Random(torch.seed()).sample([*OPERATIONS], 6):
        checked(drawn(attacks_on(name, ring), 8))
    checked(drawn(attacks_on("reveals", ring), 16))
    checked(drawn(attacks_on("inference", ring), 4))


def test_a_changed_message_is_noticed_by_checksums(monkeypatch):
    """With the hashes of parties that compute on a GPU."""
    monkeypatch.setattr(local_run, "cipher_for", lambda *_: "chacha20")
    forget_messages()  # there are others than with the hashes of CPUs
    checked(drawn(attacks_on("relu of a quotient", 64, WORDS), 30 if FULL else 10))
    forget_messages()


@pytest.mark.full("every operation; test_a_changed_message draws some")
@RINGS
@pytest.mark.parametrize("name", OPERATIONS)
def test_changed_messages_of_every_operation_are_noticed(name, ring):
    checked(drawn(attacks_on(name, ring, WORDS), 24))
    checked(drawn(of_the_operation(name, ring, protocol=PROTOCOL), 4))


@pytest.mark.full("several reveals and modules; test_a_changed_message draws some")
@RINGS
@pytest.mark.parametrize(
    ("name", "count"),
    [("reveals", 40), ("inference", 16), ("training", 10), ("sorting", 10), ("mixed", 4)],
)
def test_changed_messages_of_a_program_are_noticed(name, count, ring):
    checked(drawn(attacks_on(name, ring, WORDS), count))
    checked(drawn(attacks_on(name, ring, DELIVERY), 4))


def test_a_changed_message_is_noticed_over_tls(monkeypatch):
    info = replace(registry.TRANSPORTS["threads"], launcher=_over_tls)
    monkeypatch.setitem(registry._transports, "tls", info)
    found = [one for name in ("relu", "reveals") for one in attacks_on(name, 64, WORDS)]
    checked(drawn(found, 12 if FULL else 4), transport="tls")


_over_tls = partial(run_threads, connect=partial(connected, "tls"))


# Other programs ----------------------------------------------------------------------------------


def endings_of(corruption: Corruption, program: Program = PROGRAMS["relu"]) -> list[Ending]:
    """The endings of the honest parties."""
    found = run_corrupted(program, corruption, **SETTINGS)
    return [ending for rank, ending in enumerate(found) if rank != corruption.party]


def other_words(session: Session) -> None:
    """Draws other masks than the others do."""
    streams: Any = session.protocol.context.streams
    fill = streams.fill

    def one_more(source: Any, words: Tensor, *where: int) -> None:
        fill(source, words, *where)
        words.add_(1)

    streams.fill = one_more
    hidden(session)


def nothing_noted(session: Session) -> None:
    """Does not take part in the verification of products."""
    p: Any = session.protocol
    p.note_product = p.note_gates = lambda *_: None
    hidden(session)


@pytest.mark.parametrize("deviation", [other_words, nothing_noted])
def test_a_party_that_computes_something_else_is_noticed(deviation):
    for party in PARTIES:
        for name in ("mul", "relu", "matmul", "truncate"):
            for ending in endings_of(Corruption(party, deviation=deviation), PROGRAMS[name]):
                assert ending.opened == ()
                assert ending.error is not None
                assert issubclass(ending.error, ProtocolError | TransportError)


def test_a_party_that_answers_last_is_noticed():
    """It knows what all others tell it, but not what they tell each other."""
    found = drawn(of_the_operation("mul", 64, protocol=PROTOCOL), 40)
    assert not faults([one for one in found if one.how.kind in WORDS][:8], answering_last)


def accusing_one(session: Session) -> None:
    """Makes a party send one other party a wrong number in every comparison."""
    mesh: Any = session.mesh
    exchange = mesh.exchange

    def accusing(send: Any, receive: Any, **where: Any) -> Any:
        if compares_views(session, receive):
            first = next(iter(send))
            send = {**send, first: [send[first][0] + 1]}
        return exchange(send, receive, **where)

    mesh.exchange = accusing


def test_a_comparison_that_fails_at_one_party_ends_the_run_for_all():
    for party in PARTIES:
        assert endings_of(Corruption(party, deviation=accusing_one)) == [NOTICED] * 2


def not_multiplied(session: Session) -> Iterator[Tensor]:
    p = session.protocol
    yield p.reveal(p.add(given(p), given(p, 0)))


def test_a_party_that_runs_another_program_is_noticed():
    for party in PARTIES:
        for ending in endings_of(Corruption(party, program=not_multiplied), PROGRAMS["mul"]):
            assert ending.opened == ()
            assert ending.error is not None


# Clients -----------------------------------------------------------------------------------------


def squared(messages: Sequence[Any], session: Session) -> Iterator[Tensor]:
    p = session.protocol
    yield p.for_client(p.square(p.from_client(messages[session.rank], limit=1 << 9)))


def test_a_client_that_gives_parties_different_parts_is_noticed():
    for part, party in permutations(PARTIES, 2):
        sent = split_input(torch.tensor([3, -4]), PROTOCOL, 3)
        own = sent[party]
        if part in own.seeds:
            sent[party] = replace(own, seeds={**own.seeds, part: bytes(32)})
        else:
            sent[party] = replace(own, masked=own.masked + 1)
        assert run_corrupted(partial(squared, sent), None, **SETTINGS) == [NOTICED] * 3


def test_a_client_notices_a_wrong_result():
    value = torch.tensor([3, -4])
    program = partial(squared, split_input(value, PROTOCOL, 3))
    answers = [ending.opened[0] for ending in run_corrupted(program, None, **SETTINGS)]
    assert torch.equal(join_output(answers, PROTOCOL, 3), value * value)
    for party in PARTIES:
        for row in (0, 1):
            wrong = [answer.clone() for answer in answers]
            wrong[party][row] += 1
            with pytest.raises(CheatingDetected):
                join_output(wrong, PROTOCOL, 3)


# Nothing is noticed where nothing is changed ------------------------------------------------------


@RINGS
def test_there_are_no_false_alarms(ring):
    """Every size with an operand of every owner, many times."""
    repeats = 20 if FULL else 3
    calls = tacit.run(honest_operations, repeats, parties=3, ring=ring, **SETTINGS)
    assert calls == [calls[0]] * 3
    assert calls[0] >= (1_600 if FULL else 250)


@RINGS
def test_a_value_beyond_its_range_is_no_false_alarm(ring):
    """Whoever gives such a value must not learn from the end of a run what it met."""
    tacit.run(beyond_their_range, parties=3, ring=ring, **SETTINGS)


# Soundness ---------------------------------------------------------------------------------------


def test_buckets_have_the_least_size_that_is_sound():
    for gates in [*range(1, 200), 1000, 1001, 10**5, 2**20, 10**7 + 1]:
        rows, width, size = plan = bucket_plan(gates)
        assert (rows - 1) * width >= gates > (rows - 2) * width  # the last row holds no gate
        assert 7 * comb(size * rows, size) >= 8 << 40
        assert size == 2 or 7 * comb((size - 1) * (gates + 1), size - 1) < 8 << 40
        assert plan.triples == rows * width * size
    assert bucket_plan(2**20).size == 2
    assert (3 / 4) ** reduction.PAIRS < 2**-43


class Lie(NamedTuple):
    """What a party adds to what it sends of its own shares of products: which message, and where.

    It keeps the same, so that it can go on as if that were right.
    """

    message: int
    places: tuple[int, ...]
    error: int = 1


def lied(call: Steps[None], lies: Sequence[Lie]) -> Steps[None]:
    """Runs a call with changes of some of its messages, which the party believes itself."""
    number, received = 0, None
    while True:
        try:
            one = call.send(received)  # type: ignore[arg-type]
        except StopIteration:
            return
        for tensors in one.send.values():
            for lie in lies:
                if lie.message == number:
                    tensors[0].view(-1)[list(lie.places)] += lie.error
            number += 1
        received = yield one


def multiplied(p: Any, op: Bilinear, x: Any) -> Steps[None]:
    yield from p.bilinear.steps(op, x, x)
    yield from p.compare_views.steps()


def escapes(session: Session, op: Bilinear, lies: Sequence[Lie], trials: int) -> list[bool]:
    """Whether this party does not notice that party 1 lies, for each trial.

    Trials run side by side; each has gates and views of its own, and none ends the run.
    """
    p: Any = session.protocol
    x = p.share(torch.arange(4, dtype=p.ring.dtype).view(2, 2), 0)
    x = x if op == MATMUL else x.reshape(4)[:3]
    p.verify()
    escaped: list[bool] = []
    for _ in range(0, trials, 50):
        each = [type(p)(p.context) for _ in range(50)]
        for one in each:
            one.views.agree = lambda total, _: escaped.append(total == 0) or True
        calls = [multiplied(one, op, x) for one in each]
        if session.rank == 1:
            calls = [lied(call, lies) for call in calls]
        drive(p.context, together(*calls))
    return escaped


def rate(op: Bilinear, lies: Sequence[Lie], trials: int) -> float:
    """How often party 1 escapes; the honest parties agree about that."""
    first, _, last = tacit.run(escapes, op, lies, trials, **SETTINGS)
    assert first == last
    return sum(first) / len(first)


FIRST, TRIPLES = 0, 1  # messages: of the product, and of the random triples


def test_how_often_wrong_gates_escape(monkeypatch):
    """Of 3 gates and one that is never wrong, with 2 triples each: 1 / C(8, 2) of all orders."""
    monkeypatch.setattr(buckets, "bucket_plan", lambda _: Plan(rows=4, width=1, size=2))
    lies = [Lie(FIRST, (0,)), Lie(TRIPLES, (3, 4))]
    assert 0 < rate(MUL, lies, 400) < 3 / 28  # beyond with p = (27 / 28)^400 < 1e-6
    assert rate(MUL, [], 50) == 1
    for triples in ((), (3,), (3, 4, 5)):  # some gate meets a triple that is right, or wrong
        assert rate(MUL, [lies[0], Lie(TRIPLES, triples)], 50) == 0
    other = [lies[0], Lie(TRIPLES, (3, 4), error=2)]
    assert rate(MUL, other, 300 if FULL else 50) == 0  # errors must be equal


def test_a_party_that_lies_everywhere_is_noticed_by_the_gate_without_a_message(monkeypatch):
    everywhere = [Lie(FIRST, (0, 1, 2)), Lie(TRIPLES, tuple(range(8)))]
    monkeypatch.setattr(buckets, "bucket_plan", lambda _: Plan(rows=4, width=1, size=2))
    assert rate(MUL, everywhere, 100) == 0
    monkeypatch.setattr(buckets, "bucket_plan", lambda _: Plan(rows=3, width=1, size=2))
    without = [everywhere[0], Lie(TRIPLES, tuple(range(6)))]
    assert rate(MUL, without, 50) == 1


def test_how_often_a_wrong_matrix_escapes(monkeypatch):
    """One element is wrong by half of the ring: a pair of vectors notices a quarter of the time."""
    lies = [Lie(FIRST, (2,), error=-(1 << 63))]
    assert rate(MATMUL, lies, 50) == 0
    monkeypatch.setattr(reduction, "PAIRS", 1)
    assert 0.58 < rate(MATMUL, lies, 200) < 0.9  # of 3/4; beyond with p < 1e-6, as below
    monkeypatch.setattr(reduction, "PAIRS", 3)
    assert 0.24 < rate(MATMUL, lies, 200) < 0.6  # of 27/64
    assert rate(MATMUL, [], 50) == 1


def test_a_large_matrix_that_is_wrong_is_noticed():
    def program(session: Session) -> Iterator[Tensor]:
        p = session.protocol
        x = p.share(torch.arange(400, dtype=p.ring.dtype).view(20, 20), 0, limit=400)
        yield p.reveal(p.matmul(x, x))

    def lying(session: Session) -> None:
        hidden(session)
        mesh: Any = session.mesh
        exchange, sent = mesh.exchange, []

        def once(send: Any, receive: Any, **where: Any) -> Any:
            for tensors in send.values():
                if tensors and tensors[0].shape == (20, 20) and len(sent) < 2:
                    sent.append(tensors[0])
                    if session.rank or len(sent) == 2:  # party 0 shares the matrix first
                        tensors[0][7, 7] += 1 << 63
                        sent.append(None)
            return exchange(send, receive, **where)

        mesh.exchange = once

    for party in PARTIES:
        assert endings_of(Corruption(party, deviation=lying), program) == [NOTICED] * 2


def test_gradients_of_convolutions_are_right():
    """That by the input is multiplied as matrices, and folded."""
    torch.manual_seed(1)
    image, weight = torch.randn(2, 4, 7, 6), torch.randn(6, 2, 3, 2)

    def grads(session: Session) -> list[Tensor]:
        x = session.share(image, owner=0).requires_grad_()
        w = session.share(weight, owner=1).requires_grad_()
        y = torch.nn.functional.conv2d(x, w, stride=2, padding=1, groups=2)
        (y * y).sum().backward()
        return [session.reveal(x.grad), session.reveal(w.grad)]

    x, w = image.clone().requires_grad_(), weight.clone().requires_grad_()
    y = torch.nn.functional.conv2d(x, w, stride=2, padding=1, groups=2)
    (y * y).sum().backward()
    for found in tacit.run(grads, protocol=PROTOCOL):
        assert torch.allclose(found[0], x.grad, atol=0.02)
        assert torch.allclose(found[1], w.grad, atol=0.02)


# The coin, and what is kept ----------------------------------------------------------------------


def tossed(session: Session) -> tuple[list[int], list[int], bool]:
    p: Any = session.protocol
    coins = [drive(p.context, toss(p)) for _ in range(2)]
    words = [int(coin.words(1, p.device)) for coin in coins]
    first, empty = next(toss(p)), {p.next: [], p.previous: []}
    return words, coins[0].order(50, p.device).tolist(), first.send == first.receive == empty


def test_a_coin_is_new_and_opened_after_all_is_said():
    first, *others = tacit.run(tossed, protocol=PROTOCOL)
    assert first == others[0] == others[1]
    words, order, waits = first
    assert words[0] != words[1]
    assert sorted(order) == [*range(50)] != order
    assert waits


def test_bits_and_orders_of_a_coin_are_uniform():
    made = Coin(torch.arange(coin.SEED_WORDS))
    assert 4800 < made.bits((100, 100), torch.int64, torch.device("cpu")).sum() < 5200
    places = torch.stack([made.order(5, torch.device("cpu")) for _ in range(3000)])
    counts = torch.stack([(places == n).sum(0) for n in range(5)])
    assert ((counts - 600).abs() < 120).all()  # 5 standard deviations


def given_up(session: Session) -> tuple[Tensor, int, bool]:
    """Calls that verify are in flight when the program gives them up."""
    x = session.share(torch.arange(-6.0, 6), owner=0)
    squares = session.map(lambda b: session.reveal((b * b - 9).relu()), x.split(2), in_flight=4)
    next(squares)
    opened = session.reveal(x * x)
    p: Any = session.protocol
    return opened, len(p.kept), bool(p.claims)


def test_claims_are_kept_until_they_are_verified():
    for opened, kept, more in tacit.run(given_up, protocol=PROTOCOL):
        assert torch.allclose(opened, torch.arange(-6.0, 6) ** 2, atol=1e-3)
        assert (kept, more) == (0, False)


def test_much_is_verified_before_it_is_opened(monkeypatch):
    """Memory: with a small limit, gates are verified in the midst of operations."""
    monkeypatch.setattr("tacit.protocols.verified.claims.MOST_GATES", 40)
    forget_messages()  # there are others than without the limit
    checked(drawn(attacks_on("relu of a quotient", 64, WORDS), 4))
    forget_messages()
    tacit.run(honest_operations, 1, parties=3, **SETTINGS)


# Costs -------------------------------------------------------------------------------------------


def counted(session: Session) -> list[tuple[str, Cost, Cost]]:
    """What a verification costs after an operation, and what it is declared to cost."""
    p: Any = session.protocol
    x = p.share(torch.arange(100, dtype=p.ring.dtype), 0, limit=1 << 9)
    bit, square = p.share_bits(torch.zeros(1, 2).long(), 1, (100,)), x.reshape(10, 10)
    pairs = reduction.PAIRS
    cases = {
        "nothing": (lambda: None, p.costs.verify()),
        "mul": (lambda: p.mul(x, x), p.costs.verify(100)),
        "bit_and": (lambda: p.bit_and(bit, bit), p.costs.verify(words=2)),
        "inject": (lambda: p.inject(bit, x), p.costs.verify(300)),
        "truncate": (lambda: p.truncate(x.divided(3)), p.costs.verify(800, 10)),
        "small": (lambda: p.matmul(square, square), p.costs.verify(terms=1000)),
        "large": (
            lambda: p.matmul(x.reshape(50, 2), x.reshape(2, 50)),
            p.costs.verify(terms=2 * pairs),
        ),
        "outer": (lambda: p.outer(x, x), p.costs.verify(pairs, terms=0)),
    }
    found = []
    for name, (call, declared) in cases.items():
        p.verify()
        call()
        with session.stats.scope(name) as spent:
            p.verify()
        sent = {(session.rank, peer, False): 8 * c.bytes_sent for peer, c in spent.peers.items()}
        own = {link: bits for link, bits in declared.bits.items() if link[0] == session.rank}
        found.append((name, Cost(spent.rounds, sent), Cost(declared.rounds, own)))
    return found


@RINGS
def test_a_verification_costs_what_is_declared(ring):
    for found in tacit.run(counted, ring=ring, **SETTINGS):
        for name, spent, declared in found:
            assert spent == declared, name
