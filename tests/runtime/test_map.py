"""`session.map`: results, order, costs, and what ends a run with several calls in flight."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from tests.protocols.members import parties_of, run_members
from tests.tiers import spread
from torch import Tensor, nn
from torch.nn import functional

import tacit
from tacit import Session
from tacit.errors import ConfigError, PartyFailed, PublicMismatch, UnsupportedError
from tacit.runtime.launch import threads
from tacit.transport import InterpreterLock

PROTOCOLS = ["trio", "additive", "quad", "replicated", "replicated-malicious", "beaver"]
BITS = {64: 16, 32: 8}
EACH = pytest.mark.parametrize(
    ("protocol", "ring"), spread([(p, r) for r in BITS for p in PROTOCOLS], quick=7)
)


def network() -> nn.Module:
    torch.manual_seed(5)
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)).eval()


def pictures(count: int = 10) -> Tensor:
    return torch.linspace(-2, 2, count * 6).reshape(count, 6)


def both_ways(session: Session, in_flight: int) -> tuple[Tensor, Tensor]:
    """What a network gives for five batches, by `map` and by a loop."""
    model, x = session.share(network(), owner=0), session.share(pictures(), owner=1)
    with torch.no_grad():
        found = [session.reveal(y) for y in session.map(model, x.split(2), in_flight=in_flight)]
        plain = [session.reveal(model(batch)) for batch in x.split(2)]
    return torch.cat(found), torch.cat(plain)


@EACH
@pytest.mark.parametrize("in_flight", [1, 2, 4])
def test_results_are_those_of_a_loop(protocol, ring, in_flight):
    settings: dict[str, Any] = {"protocol": protocol, "ring": ring, "fraction_bits": BITS[ring]}
    for found, plain in run_members(both_ways, in_flight, **settings)[: parties_of(protocol)]:
        unit = 2.0 ** -BITS[ring]
        assert (found - plain).abs().max() <= 3 * unit  # each of two divisions rounds either way
        assert (found - network()(pictures()).detach()).abs().max() <= 40 * unit


def integers(session: Session, in_flight: int) -> list[Tensor]:
    """A function of integers, which rounds nothing, of batches of any kind."""
    x, w = (session.share(torch.arange(-12, 12) * f, owner=f % 2) for f in (1, 3))

    def function(batch: Tensor, number: int) -> dict[str, Any]:
        products = batch * w.split(4)[number] + number
        return {"products": products, "signs": [products > 5], "number": number}

    results = session.map(function, x.split(4), range(6), in_flight=in_flight)
    opened = []
    for number, result in enumerate(results):
        assert result.pop("number") == number
        opened.append(session.reveal(result))
    return [torch.cat([one["products"] for one in opened])] + [one["signs"][0] for one in opened]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_integers_are_exact(protocol):
    x = torch.arange(-12, 12)
    expected = x * 3 * x + torch.arange(6).repeat_interleave(4)
    for products, *signs in run_members(integers, 3, protocol=protocol)[: parties_of(protocol)]:
        assert torch.equal(products, expected)
        assert torch.equal(torch.cat(signs), expected > 5)


@pytest.mark.parametrize("protocol", spread(["trio", "quad"], quick=1))
def test_processes(protocol):
    parties = parties_of(protocol)
    for found, plain in tacit.run(
        both_ways, 3, protocol=protocol, parties=parties, transport="processes"
    ):
        assert (found - plain).abs().max() <= 3 * 2.0**-16


# Order ------------------------------------------------------------------------------------------


def uneven(session: Session) -> tuple[list[float], list[int], list[int]]:
    """Calls of very different lengths: results, and how far the batches were read at each."""
    taken: list[int] = []
    at_result: list[int] = []
    finished: list[int] = []

    def batches() -> Iterator[Tensor]:
        for number in range(7):
            taken.append(number)
            yield session.share(torch.full((2,), float(number)), owner=number % 3)  # a round

    def function(batch: Tensor) -> Tensor:
        number = len(taken) - 1
        for _ in range(6 if number in (0, 3) else 1):
            batch = functional.relu(batch) * 1.0
        finished.append(number)
        return batch

    found = []
    for y in session.map(function, batches(), in_flight=3):
        found.append(session.reveal(y)[0].item())
        at_result.append(len(taken))
    return found, at_result, finished


def test_results_are_in_order_and_batches_are_read_as_needed():
    for found, at_result, finished in tacit.run(uneven):
        assert found == [0, 1, 2, 3, 4, 5, 6]
        assert all(read <= given + 3 for given, read in enumerate(at_result))
        assert finished != sorted(finished)  # a short call overtakes a long one


def lazily(session: Session) -> list[int]:
    read: list[int] = []

    def endless() -> Iterator[Tensor]:
        while True:
            read.append(len(read))
            yield session.share(torch.ones(2), owner=0)

    results = session.map(torch.neg, endless(), in_flight=2)
    counts = [len(read)]
    for _ in range(3):
        next(results)
        counts.append(len(read))
    return counts


def test_an_endless_iterable_is_read_lazily():
    for counts in tacit.run(lazily):
        assert counts[0] == 0
        assert all(count <= given + 2 for given, count in enumerate(counts))


# Costs ------------------------------------------------------------------------------------------


def costs(session: Session) -> tuple[Any, Any, dict[str, Any]]:
    model, x = session.share(network(), owner=0), session.share(pictures(12), owner=1)

    def function(batch: Tensor) -> Tensor:
        with session.stats.scope("call"):
            y = model(batch)
            session.numbers.settled(y.value)
        return y

    with torch.no_grad(), session.stats.scope("loop") as loop:
        for batch in x.split(2):
            function(batch)
    with torch.no_grad(), session.stats.scope("map") as mapped:
        list(session.map(function, x.split(2)))
    return loop, mapped, session.stats.scopes


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_costs_are_those_of_the_calls(protocol):
    found = run_members(costs, protocol=protocol)
    for _, mapped, scopes in found:
        inner = scopes["map/call"]
        assert (inner.bytes_sent, inner.rounds) == (mapped.bytes_sent, mapped.rounds)
    if protocol == "trio":  # six calls are two in each assignment of roles
        for name in ("bytes_sent", "bytes_received", "messages", "bytes_sent_ahead"):
            loop, mapped = (sum(getattr(one[i], name) for one in found) for i in (0, 1))
            assert mapped == loop
            assert len({getattr(one[1], name) for one in found}) == 1, "each party deals a third"
    else:
        for loop, mapped, _ in found:
            assert (loop.bytes_sent, loop.messages, loop.rounds) == (
                mapped.bytes_sent,
                mapped.messages,
                mapped.rounds,
            )


# What functions may do --------------------------------------------------------------------------


def reveals(session: Session) -> list[float]:
    """A function that reveals, decides by it, and draws public random numbers."""
    x = session.share(torch.arange(8.0), owner=0)

    def function(batch: Tensor) -> tuple[Tensor, Tensor]:
        if session.reveal(batch.sum()) > 5:
            batch = batch.relu() * 2
        return batch, torch.rand(2)

    results = list(session.map(function, x.split(2)))
    drawn = torch.cat([numbers for _, numbers in results])
    return [value for y, _ in results for value in session.reveal(y).tolist()] + drawn.tolist()


@pytest.mark.parametrize("protocol", ["trio", "quad"])
def test_functions_may_reveal_and_draw(protocol):
    found = tacit.run(reveals, protocol=protocol, parties=parties_of(protocol))
    for values in found:
        assert values == found[0]
        assert values[:8] == pytest.approx([0, 1, 2, 3, 8, 10, 12, 14], abs=1e-3)


def shared_product(session: Session) -> Tensor:
    """An operand from outside that is a product with a pending division, and a view of it."""
    x = session.share(torch.linspace(-1, 1, 12), owner=0)
    w = x * session.share(torch.full((12,), 1.5), owner=1)
    half = w[:6]

    def function(batch: Tensor) -> Tensor:
        return batch * half + w[6:] + half

    results = session.map(function, x.reshape(2, 6).repeat(3, 1), in_flight=3)
    return torch.stack([session.reveal(y) for y in results])


def test_products_from_outside():
    x = torch.linspace(-1, 1, 12)
    w = x * 1.5
    expected = x.reshape(2, 6).repeat(3, 1) * w[:6] + w[6:] + w[:6]
    for found in tacit.run(shared_product):
        assert torch.allclose(found, expected, atol=1e-3)


def summed(session: Session) -> Tensor:
    """Products of several calls, which have different dealers, are added up by the program."""
    x = session.share(torch.linspace(-1, 1, 12), owner=0)
    products = session.map(torch.mul, x.split(4), x.split(4))
    return session.reveal(sum(products))


def test_products_of_several_calls_are_added():
    expected = (torch.linspace(-1, 1, 12) ** 2).reshape(3, 4).sum(0)
    for found in tacit.run(summed):
        assert torch.allclose(found, expected, atol=1e-3)


def nested(session: Session) -> Tensor:
    x = session.share(torch.arange(12.0), owner=0)

    def outer(batch: Tensor) -> Tensor:
        return torch.cat(list(session.map(torch.relu, (batch - 4).split(2))))

    return torch.cat([session.reveal(y) for y in session.map(outer, x.split(4))])


def test_a_map_in_a_map_and_two_side_by_side():
    for found in tacit.run(nested):
        assert torch.allclose(found, (torch.arange(12.0) - 4).relu(), atol=1e-3)

    def both(session: Session) -> Tensor:
        x = session.share(torch.arange(12.0), owner=0)
        one, two = session.map(torch.relu, x.split(4)), session.map(torch.neg, x.split(4))
        return torch.cat([session.reveal(a * b) for a, b in zip(one, two, strict=True)])

    for found in tacit.run(both):
        assert torch.allclose(found, -(torch.arange(12.0) ** 2), atol=1e-2)


@pytest.mark.parametrize("in_flight", [1, 3])
def test_a_write_to_a_secret_from_outside_is_refused(in_flight):
    def main(session: Session) -> list[float]:
        total = session.share(torch.zeros(2), owner=0)
        x = session.share(torch.ones(6), owner=0)
        with pytest.raises(UnsupportedError, match="writes to a secret from outside"):
            list(session.map(total.add_, x.split(2), in_flight=in_flight))
        own = session.map(lambda y: (y * 1.0).add_(1), x.split(2), in_flight=in_flight)
        return [session.reveal(y).sum().item() for y in own]

    for found in tacit.run(main):
        assert found == pytest.approx([4, 4, 4], abs=1e-3)


def test_a_result_with_a_graph_is_refused():
    def main(session: Session) -> None:
        model, x = session.share(network(), owner=0), session.share(pictures(), owner=1)
        with pytest.raises(UnsupportedError, match="requires a gradient"):
            next(session.map(model, x.split(2)))
        with torch.inference_mode():
            assert len(list(session.map(model, x.split(5)))) == 2

    tacit.run(main)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [({"in_flight": 0}, {}), ({}, {"function": 3}), ({"in_flight": 1.5}, {})],
)
def test_arguments_are_checked(arguments, named):
    def main(session: Session) -> None:
        session.map(named.get("function", torch.relu), [1], **arguments)

    with pytest.raises(PartyFailed) as caught:
        tacit.run(main)
    assert caught.value.kind == ConfigError.__name__


def gradients(session: Session) -> list[Tensor]:
    """Gradients of inputs and losses that are computed lazily, in each call."""
    model, x = session.share(network(), owner=0), session.share(pictures(6), owner=1)

    def function(batch: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        batch = batch.clone().requires_grad_()
        loss = functional.cross_entropy(model(batch), labels)
        [gradient] = torch.autograd.grad(loss, batch)
        return gradient, loss.detach()

    made = session.map(function, x.split(2), torch.arange(6).remainder(3).split(2))
    gradient, loss = zip(*made, strict=True)
    return [session.reveal(torch.cat(gradient)), session.reveal(sum(loss))]


def test_gradients_in_calls():
    model, x, labels = network(), pictures(6).requires_grad_(), torch.arange(6).remainder(3)
    losses = [
        functional.cross_entropy(model(batch), of)
        for batch, of in zip(x.split(2), labels.split(2), strict=True)
    ]
    expected = torch.autograd.grad(sum(losses), x)[0]
    for gradient, loss in tacit.run(gradients):
        assert torch.allclose(gradient, expected, atol=2e-3)
        assert loss.item() == pytest.approx(sum(losses).item(), abs=5e-3)


def test_a_batch_may_be_written_to_by_its_own_call():
    def main(session: Session, in_flight: int) -> list[float]:
        batches = (session.share(torch.full((2,), float(i)), owner=0) for i in range(4))
        return [
            session.reveal(y).sum().item()
            for y in session.map(lambda y: y.add_(1), batches, in_flight=in_flight)
        ]

    for in_flight in (1, 3):
        assert tacit.run(main, in_flight) == [[2.0, 4.0, 6.0, 8.0]] * 3


def test_parties_that_run_one_at_a_time(monkeypatch):
    """Threads that share a lock on the interpreter, as those whose work all waits on GPUs do."""
    monkeypatch.setattr(threads, "_interpreter_lock", lambda _: InterpreterLock())
    for found, plain in tacit.run(both_ways, 3):
        assert (found - plain).abs().max() <= 3 * 2.0**-16


def stored(session: Session) -> Tensor:
    model, x = session.share(network(), owner=0), session.share(pictures(), owner=1)
    with torch.no_grad():
        return torch.cat([session.reveal(y) for y in session.map(model, x.split(2))])


@pytest.mark.parametrize("protocol", spread(["trio", "additive"], quick=1))
def test_stored_runs(protocol, tmp_path):
    settings: dict[str, Any] = {"protocol": protocol, "parties": parties_of(protocol)}
    tacit.preprocess(stored, folder=tmp_path, **settings)
    for found in tacit.run(stored, preprocessed=tmp_path, **settings):
        assert torch.allclose(found, network()(pictures()), atol=1e-3)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [({"guard": True}, "guard"), ({"protocol": "additive", "dealer": "none"}, "transfers")],
)
def test_what_cannot_overlap_runs_one_at_a_time(settings, reason, caplog):
    caplog.set_level("INFO", "tacit")
    settings = {"parties": parties_of(settings.get("protocol", "trio")), **settings}
    for found, plain in tacit.run(both_ways, 3, **settings):
        assert (found - plain).abs().max() <= 3 * 2.0**-16
    [line] = [text for text in caplog.messages if "one call at a time" in text]
    assert reason in line


# Endings ----------------------------------------------------------------------------------------


def abandoned(session: Session) -> Tensor:
    x = session.share(torch.arange(20.0) - 10, owner=0)
    for y in session.map(torch.relu, x.split(2), in_flight=4):
        first = y
        break
    return torch.cat([session.reveal(one) for one in (first, x.relu())])


@pytest.mark.parametrize(("transport", "protocol"), [("threads", "quad"), ("processes", "trio")])
def test_an_abandoned_iterator_leaves_the_session_usable(transport, protocol):
    parties = parties_of(protocol)
    for found in tacit.run(abandoned, transport=transport, protocol=protocol, parties=parties):
        expected = (torch.arange(20.0) - 10).relu()
        assert torch.allclose(found, torch.cat([expected[:2], expected]), atol=1e-3)


def never_finished(session: Session) -> float:
    """Ends while messages of calls in flight are on their way."""
    x = session.share(torch.rand(1 << 16), owner=0)
    next(session.map(torch.relu, x.split(1 << 13), in_flight=4))
    return 1.0


@pytest.mark.parametrize("transport", ["threads", "processes"])
def test_a_session_ends_with_calls_in_flight(transport):
    assert tacit.run(never_finished, transport=transport) == [1.0] * 3


def one_fails(session: Session, rank: int) -> None:
    x = session.share(torch.arange(12.0), owner=0)
    calls = []

    def function(batch: Tensor) -> Tensor:
        calls.append(batch)
        if len(calls) == 4 and session.rank == rank:
            raise KeyError("a fault of one party")
        return batch.relu()

    for y in session.map(function, x.split(2)):
        session.reveal(y)


@pytest.mark.parametrize("rank", [0, 2])
def test_a_call_that_fails_at_one_party_ends_the_run(rank):
    with pytest.raises(PartyFailed) as caught:
        tacit.run(one_fails, rank, deadline=60)
    assert (caught.value.party, caught.value.kind) == (rank, KeyError.__name__)
    assert "in function" in str(caught.value)


def all_fail(session: Session) -> float:
    x = session.share(torch.arange(12.0), owner=0)
    calls = []

    def function(batch: Tensor) -> Tensor:
        calls.append(batch)
        if len(calls) == 4:
            raise ValueError("at all parties alike")
        return batch.relu()

    with pytest.raises(ValueError, match="at all parties alike"):
        list(session.map(function, x.split(2)))
    return session.reveal(x.relu().sum()).item()


@pytest.mark.parametrize("protocol", ["trio", "quad", "additive"])
def test_a_failure_of_all_parties_can_be_caught(protocol):
    found = tacit.run(all_fail, protocol=protocol, parties=parties_of(protocol))
    assert found == pytest.approx([66.0] * len(found), abs=1e-2)


def differs(session: Session) -> None:
    x = session.share(torch.arange(12.0), owner=0)

    def function(batch: Tensor, factor: float) -> Tensor:
        return (batch * factor).relu()

    factors = [1.5, 2.5, 3.5 + session.rank // 2, 4.5, 5.5, 6.5]
    for y in session.map(function, x.split(2), factors):
        session.reveal(y)


def test_public_values_that_differ_in_a_call_are_noticed():
    with pytest.raises(PartyFailed) as caught:
        tacit.run(differs)
    assert caught.value.kind == PublicMismatch.__name__
    assert "mul" in str(caught.value)


def test_parties_with_different_numbers_in_flight_are_noticed():
    def main(session: Session) -> None:
        x = session.share(torch.arange(12.0), owner=0)
        list(session.map(torch.relu, x.split(2), in_flight=2 + session.rank // 2))

    with pytest.raises(PartyFailed) as caught:
        tacit.run(main)
    assert caught.value.kind == PublicMismatch.__name__
    assert "map" in str(caught.value)
