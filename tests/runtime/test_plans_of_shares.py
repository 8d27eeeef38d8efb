"""Plans of functions that share their arguments: only the owner knows what they hold."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch

import tacit
from tacit.errors import CheatingDetected, PartyFailed, RangeError
from tacit.runtime.replay.plan import Draw
from tacit.testing import Corruption, manipulations_of, messages_of, run_corrupted

XS = torch.randn(7, 5, generator=torch.Generator().manual_seed(2))
SETTINGS = [
    {"protocol": "trio"},
    {"protocol": "trio", "ring": 32, "fraction_bits": 12},
    {"protocol": "replicated"},
    {"protocol": "additive", "parties": 2},
    {"protocol": "quad", "parties": 4},
    pytest.param({"protocol": "beaver"}, marks=pytest.mark.full("additive runs")),
]


def own(session, x, owner):
    """The tensor at its owner, and something else at the others."""
    return x if session.rank == owner else torch.zeros_like(x)


def halves(session, owner):
    """Outputs and costs of a function that shares, and how many recordings it has."""
    function = session.repeated(lambda x: session.share(x / 2, owner=owner).relu())
    found, costs = [], []
    for x in XS:
        with session.stats.scope("call") as cost:
            y = function(own(session, x, owner))
        costs.append((cost.rounds, cost.bytes_sent, cost.bytes_received))
        found.append(session.reveal(y))
    return torch.stack(found), costs, function.recordings


@pytest.mark.parametrize("owner", [0, 1])
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_what_a_replay_shares_is_right_and_costs_the_same(settings, owner):
    parties = settings.get("parties", 3)
    for rank, (found, costs, recordings) in enumerate(tacit.run(halves, owner, **settings)):
        if rank < parties:
            torch.testing.assert_close(found, (XS / 2).relu(), atol=2e-3, rtol=0)
        assert costs[-1] == costs[-2]
        assert costs[-1][0] <= costs[0][0]
        assert costs[-1][1:] == costs[0][1:]
        assert [one.num_replays for one in recordings] == [4]


@pytest.mark.parametrize("is_bool", [False, True])
def test_under_the_same_masks_a_replay_shares_the_words_of_a_call(is_bool):
    xs = XS > 0 if is_bool else XS

    def main(session):
        def plain(x):
            return session.share(x, owner=1)

        function = session.repeated(plain)
        for x in xs[:4]:
            function(own(session, x, 1))
        streams, x = session.protocol.context.streams, own(session, xs[4], 1)
        number = streams.number
        replayed = function(x).value.share.parts
        after, streams.number = streams.number, number
        called = plain(x).value.share.parts
        assert streams.number == after
        assert function.recordings[0].num_replays == 2
        return all(torch.equal(called[i], replayed[i]) for i in called)

    assert all(tacit.run(main))


def test_no_two_inputs_are_hidden_by_the_same_mask():
    def main(session):
        function = session.repeated(lambda x: session.share(x, owner=1))
        firsts, sent = [], []
        for _ in range(7):  # the same input in all calls
            firsts.append(session.protocol.context.streams.number)
            parts = function(own(session, XS[0], 1)).value.share.parts
            sent.append([part.tolist() for part in parts.values()])
        [recording] = [made for one in function._specializations for made in one.recordings]
        steps = recording.plan.steps
        assert session.rank != 1 or any(isinstance(step, Draw) for step in steps)
        assert all(b - a >= recording.plan.num_calls > 0 for a, b in pairwise(firsts[3:]))
        return sent

    sent = tacit.run(main)[1]
    assert all(a != b for a, b in pairwise(sent))


def test_parties_that_give_a_shape_alone():
    def main(session):
        function = session.repeated(lambda x: (session.share(x, owner=1, shape=(5,)) * 2).detach())
        found = [function(x if session.rank == 1 else None) for x in XS]
        return session.reveal(torch.stack(found)), len(function.recordings)

    for found, recorded in tacit.run(main):
        torch.testing.assert_close(found, 2 * XS, atol=1e-3, rtol=0)
        assert recorded == 1


def test_a_training_step_with_plain_batches():
    def make():
        torch.manual_seed(1)
        return torch.nn.Linear(5, 1)

    def train(model, share):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def step(x, y):
            x, y = share((x, y))
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()

        return step

    def main(session):
        model = session.share(make(), owner=0)
        step = session.repeated(train(model, lambda xy: session.share(xy, owner=1)))
        for x in XS:
            step(own(session, x[None], 1), torch.ones(1, 1))
        return session.reveal(model.weight.detach()), step.summary()

    plain = make()
    step = train(plain, lambda xy: xy)
    for x in XS:
        step(x[None], torch.ones(1, 1))
    for weight, summary in tacit.run(main):
        torch.testing.assert_close(weight, plain.weight.detach(), atol=3e-3, rtol=0)
        assert "replayed 4 times" in summary


def test_numbers_that_cannot_be_shared_are_refused_in_a_replay():
    def main(session):
        function = session.repeated(lambda x: session.share(x, owner=1) * 2)
        for x in XS[:5]:
            function(own(session, x, 1))
        function(own(session, torch.full((5,), float("nan")), 1))

    with pytest.raises(PartyFailed, match="NaN") as caught:
        tacit.run(main)
    assert isinstance(caught.value.__cause__, RangeError)
    assert caught.value.__cause__.party == 1


DATA = XS.clone()
OTHERS = {
    "a variable": (lambda s, x: s.share(DATA[0], owner=1), "else than a tensor that is an arg"),
    "a number": (lambda s, x: s.share(2.0, owner=1) * x.shape[0], "else than a tensor that is an"),
    "used": (lambda s, x: s.share(x, owner=1) * x, "and computes with its plain numbers"),
    "read": (lambda s, x: s.share(x, owner=1) * float(x.sum()), "and computes with its plain num"),
}


@pytest.mark.parametrize(("function", "obstacle"), OTHERS.values(), ids=OTHERS)
def test_what_cannot_be_shared_in_a_replay_runs_as_it_is(function, obstacle, caplog):
    def main(session):
        repeated = session.repeated(lambda x: function(session, x))
        for x in XS[:6]:
            a, b = session.reveal([repeated(x), function(session, x)])
            torch.testing.assert_close(a, b, atol=1e-3, rtol=0)
        return repeated.summary()

    assert all(obstacle in one for one in tacit.run(main))
    assert obstacle in caplog.text


def sharing(session):
    """A program of four parties whose last call is a replay that shares."""
    function = session.repeated(lambda x: session.share(x, owner=1) * 2)
    for x in XS[:4]:
        made = function(own(session, x, 1))
    yield session.reveal(made)


def test_an_input_of_a_replay_that_was_changed_is_noticed():
    sent = [one for one in messages_of(sharing, protocol="quad") if "replay" in str(one)]
    to_receivers = [one for one in sent if one.party == 1]
    assert len(to_receivers) >= 2
    for one in to_receivers[:2]:
        how = manipulations_of(one)[0]
        endings = run_corrupted(sharing, Corruption(one.party, (how,)), protocol="quad")
        honest = [ending for rank, ending in enumerate(endings) if rank != one.party]
        assert all(ending.error is CheatingDetected and not ending.opened for ending in honest)


def test_a_plain_argument_that_is_written_runs_as_it_is(caplog):
    def main(session):
        def function(x, count):
            count.add_(1)
            return x * 2

        function = session.repeated(function)
        x, counts = session.share(XS[0], owner=0), [torch.zeros(()) for _ in range(6)]
        for count in counts:
            function(x, count)
        return [float(count) for count in counts]

    assert tacit.run(main) == [[1.0] * 6] * 3
    assert "it writes to an argument: it runs as it is" in caplog.text


def test_a_plan_takes_the_contents_of_a_public_argument():
    masks = torch.tensor([[1.0, 0, 1, 0, 1], [0, 1, 0, 1, 0]])

    def main(session):
        function = session.repeated(lambda x, mask: (x * mask).detach())
        found = []
        for i in range(10):
            x = session.share(XS[i % 7], owner=0)
            found.append(session.reveal(function(x, masks[i % 2].clone())))
        return torch.stack(found), [one.num_replays for one in function.recordings]

    wanted = torch.stack([XS[i % 7] * masks[i % 2] for i in range(10)])
    for found, replays in tacit.run(main):
        torch.testing.assert_close(found, wanted, atol=1e-3, rtol=0)
        assert replays == [6]
