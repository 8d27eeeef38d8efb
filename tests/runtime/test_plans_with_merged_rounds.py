"""Plans whose rounds are merged, at several parties: the bits of a call, in fewer rounds."""

from __future__ import annotations

import copy
from functools import partial

import pytest
import torch
from torch import nn

import tacit
from tacit import zoo
from tacit.errors import PartyFailed
from tacit.runtime.replay import plan_merging
from tacit.runtime.replay.plan import Begin


class Branches(nn.Module):
    """Three independent products of one input, as those of queries, keys and values."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(6, 6) for _ in range(3))

    def forward(self, x):
        return torch.cat([layer(x) for layer in self.layers], -1)


class Residual(nn.Module):
    """A block whose second branch is a convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(2, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1)
        self.branch = nn.Conv2d(2, 4, 1)

    def forward(self, x):
        return (self.second(self.first(x).relu()) + self.branch(x)).relu()


class SideBySide(nn.Module):
    """Two recurrent layers of one input."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.LSTM(3, 2), nn.LSTM(3, 2)

    def forward(self, x):
        return self.first(x)[0] + self.second(x)[0]


class Attention(nn.Module):
    """An attention layer with three products of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.branches = Branches()

    def forward(self, x):
        q, k, v = self.branches(x).chunk(3, -1)
        return nn.functional.scaled_dot_product_attention(q, k, v)


def replay_and_call(session, make, shape):
    """Whether replays give the bits of calls with the same masks; the rounds of both."""
    torch.manual_seed(7)
    model = session.share(make().eval(), owner=0)
    xs = [session.share(x, owner=1) for x in torch.randn(2, *shape)]
    function = session.repeated(lambda x: model(x).detach())
    for _ in range(3):
        function(xs[0])
    streams = session.protocol.context.streams
    for x in xs:
        number = streams.number
        with session.stats.scope("replay") as replay:
            replayed = function(x).value.share.parts
        after, streams.number = streams.number, number
        with session.stats.scope("call") as call:
            called = model(x).detach().value.share.parts
        assert streams.number == after
        assert replayed.keys() == called.keys()
        assert all(torch.equal(called[i], replayed[i]) for i in called)
        assert replay.bytes_sent == call.bytes_sent
        assert replay.bytes_received == call.bytes_received
    [summary] = function.recordings
    assert (summary.rounds, summary.rounds_of_call) == (replay.rounds, call.rounds)
    if replay.rounds < call.rounds:
        assert f"{replay.rounds} rounds ({call.rounds} before merging)" in function.summary()
    return replay.rounds, call.rounds


RING32 = {"ring": 32, "fraction_bits": 12}
CASES = [
    ({"protocol": "trio"}, Branches, (2, 6), 3, 1),
    ({"protocol": "trio", **RING32}, Branches, (2, 6), 3, 1),
    ({"protocol": "additive", "parties": 2}, Branches, (2, 6), 3, 1),
    ({"protocol": "replicated"}, Branches, (2, 6), 3, 1),
    ({"protocol": "replicated", **RING32}, Branches, (2, 6), 3, 1),
    ({"protocol": "beaver"}, Branches, (2, 6), None, None),
    ({"protocol": "quad", "parties": 4}, Branches, (2, 6), 3, 1),
    ({"protocol": "trio"}, Residual, (1, 2, 5, 5), None, None),
    ({"protocol": "trio"}, Attention, (1, 4, 6), None, None),
]


def named(value):
    return getattr(value, "__name__", str(value))  # a function's text differs between processes


@pytest.mark.parametrize(("settings", "make", "shape", "before", "after"), CASES, ids=named)
def test_independent_rounds_are_one_and_the_bits_are_the_same(settings, make, shape, before, after):
    found = tacit.run(replay_and_call, make, shape, **settings)
    most = max(found, key=lambda one: one[1])
    assert most[0] < most[1]
    assert before is None or most == (after, before)


SLOW = [
    ({"protocol": "replicated"}, Attention, (1, 4, 6)),
    ({"protocol": "quad", "parties": 4, **RING32}, Residual, (1, 2, 5, 5)),
    ({"transport": "processes"}, Branches, (2, 6)),
    ({"protocol": "trio"}, zoo.lenet, (1, 1, 28, 28)),
]


@pytest.mark.full("small networks run")
@pytest.mark.parametrize(("settings", "make", "shape"), SLOW, ids=named)
def test_networks(settings, make, shape):
    for replayed, called in tacit.run(replay_and_call, make, shape, **settings):
        assert replayed <= called


@pytest.mark.full("other branches run")
def test_recurrent_layers_side_by_side_share_their_rounds():
    for replayed, called in tacit.run(replay_and_call, SideBySide, (2, 1, 3))[1:]:
        assert replayed <= called / 2


def step_and_rounds(session, make):
    """Weights after five steps of an optimizer of which two are replayed; the rounds of each."""
    torch.manual_seed(8)
    model = session.share(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 3), nn.Linear(3, 2)), owner=0)
    optimizer = make(model.parameters())
    x = session.share(torch.randn(3, 4), owner=1)

    def step(x):
        optimizer.zero_grad()
        loss = (model(x) ** 2).sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    step = session.repeated(step)
    rounds = []
    for _ in range(5):
        with session.stats.scope("step") as cost:
            step(x)
        rounds.append(cost.rounds)
    return [session.reveal(p.detach()) for p in model.parameters()], rounds


def test_gradients_and_updates_of_all_parameters_share_rounds():
    """Those of the weights wait for no other; the same steps as they are give the same."""
    make = partial(torch.optim.SGD, lr=0.1, momentum=0.9)
    weights, rounds = tacit.run(step_and_rounds, make)[1]
    assert rounds[-1] < rounds[0]
    torch.manual_seed(8)
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 3), nn.Linear(3, 2))
    optimizer, x = make(model.parameters()), torch.randn(3, 4)
    for _ in range(5):
        optimizer.zero_grad()
        (model(x) ** 2).sum().backward()
        optimizer.step()
    for found, want in zip(weights, model.parameters(), strict=True):
        torch.testing.assert_close(found, want.detach(), atol=5e-3, rtol=0)


def test_several_reveals_are_one_round_and_each_is_recorded():
    xs = torch.arange(8.0).reshape(4, 2)

    def main(session):
        function = session.repeated(lambda x, y: [session.reveal(z) for z in (x, y, x + y)])
        costs = []
        for a in xs:
            x, y = session.share(a, owner=0), session.share(-2 * a, owner=1)
            with session.stats.scope("call") as cost:
                found = function(x, y)
            costs.append(cost.rounds)
            for z, want in zip(found, (a, -2 * a, -a), strict=True):
                torch.testing.assert_close(z, want)
        operations = [one.operation for one in session.reveals]
        assert operations == sorted(set(operations))
        return costs, len(operations)

    for costs, reveals in tacit.run(main):
        assert costs[0] == costs[2] == 3
        assert (costs[3], reveals) == (1, 12)


def test_a_party_that_fails_in_a_merged_round_is_named(monkeypatch):
    """It sends nothing of the round, whose number the others wait at."""

    class Interrupted(Exception):
        pass

    def main(session):
        model = session.share(Branches().eval(), owner=0)
        x = session.share(torch.ones(2, 6), owner=1)
        function = session.repeated(lambda x: model(x).detach())
        for _ in range(4):
            function(x)
        if session.rank == 2:
            [recording] = function._specializations[0].recordings
            steps = recording.plan.steps
            place = max(i for i, step in enumerate(steps) if isinstance(step, Begin))

            def fail(first):
                raise Interrupted

            steps[place] = fail
            recording.plan._calls.clear()  # those of the steps before
        function(x)

    with pytest.raises(PartyFailed) as caught:
        tacit.run(main)
    assert caught.value.party == 2
    assert isinstance(caught.value.__cause__, Interrupted)


def test_where_a_party_lacks_memory_nothing_is_merged(monkeypatch):
    """All parties decide alike, so one is enough."""
    monkeypatch.setattr(plan_merging, "SMALL_BYTES", 0)
    monkeypatch.setattr(plan_merging, "GROWTH", 0)
    for replayed, called in tacit.run(replay_and_call, Branches, (2, 6)):
        assert replayed == called


def test_replays_of_copies_are_right_with_every_input():
    model = Residual().eval()
    xs = torch.randn(6, 1, 2, 5, 5)

    def main(session):
        shared = session.share(copy.deepcopy(model), owner=0)
        function = session.repeated(lambda x: shared(x).detach())
        return torch.stack([session.reveal(function(session.share(x, owner=1))) for x in xs])

    with torch.no_grad():
        want = torch.stack([model(x) for x in xs])
    for found in tacit.run(main):
        torch.testing.assert_close(found, want, atol=2e-3, rtol=0)
