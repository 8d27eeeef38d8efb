"""Graphs on a GPU that is pretended: what changes from call to call is new in each replay."""

from __future__ import annotations

import pytest
import torch
from tests.runtime import pretended_device
from tests.runtime.pretended_gpu import (
    insecure_fixed_masks,
    pretended,
    pretended_own,
)
from torch import nn
from torch.nn import functional as F

from tacit.runtime.replay.plan import Exchange
from tacit.runtime.replay.segment_rounds import PinnedExchange, SegmentExchange
from tacit.transport import Mesh
from tacit.transport.wire.frames import SHORT_BYTES

__all__ = ["pretended", "pretended_own"]

BATCHES = torch.randn(6, 6, 4, generator=torch.Generator().manual_seed(1))
TARGETS = torch.ones(6, 2)


def network(*layers):
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(4, 2, bias=False), *layers).train()


FIXTURES = {"graph": "pretended", "segments": "pretended_own"}


@pytest.fixture(params=FIXTURES)
def on_gpu(request):
    """`tacit.run`, with functions that are recorded as one graph of all parties, or of each.

    Memory is where the latter differs from a plan: what users get between the replays must not be
    what the graphs use.
    """
    return request.getfixturevalue(FIXTURES[request.param])


def counted(function, ranks):
    """The method of a mesh, which notes the rank of each call."""

    def call(mesh, *args, **kwargs):
        ranks.append(mesh.rank)
        return function(mesh, *args, **kwargs)

    return call


def num_replays(function):
    return sum(one.num_replays for one in function.recordings)


def trained(session, make, make_optimizer, is_repeated):
    """Losses, weights and public buffers after a training, and how many steps were replayed."""
    model = session.share(make(), owner=0)
    optimizer = make_optimizer(model.parameters())

    def step(x, y):
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    step, y = session.repeated(step) if is_repeated else step, session.share(TARGETS, owner=1)
    losses = [step(session.share(x, owner=1), y) for x in BATCHES]
    found = [session.reveal(x.detach()) for x in (*losses, *model.parameters())]
    public = [x.clone() for x in model.buffers() if not hasattr(x, "_cell")]
    return found + public, num_replays(step) if is_repeated else 0


ADAM = {"lr": 0.01, "weight_decay": 0.1}
TRAININGS = {
    "adam": (network, lambda p: torch.optim.Adam(p, **ADAM)),
    "batch norm": (lambda: network(nn.BatchNorm1d(2)), lambda p: torch.optim.SGD(p, lr=0.1)),
}


@pytest.mark.parametrize("name", TRAININGS)
def test_a_replayed_training_is_the_training(on_gpu, name, monkeypatch):
    """Without masks divisions round alike, but for those that a recording makes earlier."""

    def main(session, is_repeated):
        return trained(session, *TRAININGS[name], is_repeated)

    insecure_fixed_masks(monkeypatch)
    (plain, _), *_ = on_gpu(main, False)
    for found, replays in on_gpu(main, True):
        assert replays >= 2
        for one, other in zip(found, plain, strict=True):
            torch.testing.assert_close(one, other, atol=2e-4, rtol=0)


def test_a_loss_that_nobody_reads_is_no_work(on_gpu):
    """Only the form of such a loss is computed, which a recording leaves alone."""

    def main(session):
        model = session.share(network(), owner=0)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def step(x, y):
            optimizer.zero_grad()
            scores = model(x)
            F.cross_entropy(scores, y).backward()
            optimizer.step()
            return scores.detach()

        step, y = session.repeated(step), session.share(TARGETS / 2, owner=1)
        for x in BATCHES[:4]:
            step(session.share(x, owner=1), y)
        return num_replays(step)

    assert on_gpu(main) == [2] * 3


def shared_and_revealed(session):
    """Shares its argument, and reveals the sum to all and the product to party 1."""
    weight = session.share(torch.arange(4.0), owner=0)

    def function(x):
        secret = session.share(x, owner=1)
        return session.reveal(secret.sum(0)), session.reveal(secret @ weight, to=1)

    function = session.repeated(function)
    found = [function(x if session.rank == 1 else torch.zeros_like(x)) for x in BATCHES]
    return found, num_replays(function), [one.operation for one in session.reveals]


def test_what_is_shared_and_revealed_is_new_in_every_replay(on_gpu):
    for rank, (found, replays, operations) in enumerate(on_gpu(shared_and_revealed)):
        assert replays == len(BATCHES) - 2
        assert len(operations) == 2 * len(BATCHES)
        assert operations == sorted(set(operations))
        for x, (total, product) in zip(BATCHES, found, strict=True):
            torch.testing.assert_close(total, x.sum(0), atol=1e-3, rtol=0)
            if rank == 1:
                torch.testing.assert_close(product, x @ torch.arange(4.0), atol=1e-3, rtol=0)
            else:
                assert product is None


def test_sharing_after_a_reveal(request, on_gpu):
    """One graph of all parties cannot wait for the host; graphs between rounds can."""

    def main(session):
        def function(x):
            total = session.reveal(session.share(x, owner=0).sum())
            return total, session.share(x, owner=0) * 2

        function = session.repeated(function)
        found = []
        for x in BATCHES:
            total, doubled = function(x)
            found.append((total, session.reveal(doubled)))
        return found, num_replays(function)

    for found, replays in on_gpu(main):
        assert (replays > 0) == ("graph]" not in request.node.name)
        for x, (total, doubled) in zip(BATCHES, found, strict=True):
            torch.testing.assert_close(total, x.sum(), atol=1e-3, rtol=0)
            torch.testing.assert_close(doubled, 2 * x, atol=1e-3, rtol=0)


@pytest.mark.parametrize("size", [4, SHORT_BYTES])
def test_messages_of_a_recorded_round_arrive_in_pinned_memory(size, pretended_own):
    """From other memory, a copy to the GPU waits for the host. Copies of short ones are captured.

    So many numbers that a message is larger than a short one, or than what is pinned at a time.
    """

    def main(session):
        given = torch.arange(float(size)) % 7
        x = session.share(given, owner=0)
        step = session.repeated(lambda: x * x)
        found = [session.reveal(step()) for _ in range(4)]
        assert all(torch.equal(one, given * given) for one in found)
        [recording] = step._specializations[0].recordings
        rounds = [one for one in recording._trace.plan.steps if isinstance(one, Exchange)]
        assert {type(one) for one in rounds} <= {PinnedExchange if size == 4 else SegmentExchange}
        into = [x for one in rounds for xs in one.into.values() for x in xs]
        return [pretended_device.is_pinned(x) for x in into]

    found = pretended_own(main)
    assert all(map(all, found))
    assert any(map(len, found))


def test_what_is_dealt_is_taken_as_it_comes_but_not_between_lanes(pretended_own, monkeypatch):
    """Party 2 receives what the dealer sends ahead. Lanes would receive in turns."""
    posted = []
    monkeypatch.setattr(Mesh, "post", counted(Mesh.post, posted))
    given = torch.linspace(-2, 2, 8)

    def main(session):
        x = session.share(given, owner=0)
        step = session.repeated(lambda x: torch.relu(torch.relu(x) - 1) * x)
        found = [session.reveal(step(x)) for _ in range(5)]
        alone = [*posted]
        session.protocol.context.parked.add(step)
        found += [session.reveal(step(x)) for _ in range(3)]
        session.protocol.context.parked.clear()
        for one in found:
            torch.testing.assert_close(one, (given - 1).relu() * given, atol=1e-3, rtol=0)
        return alone, num_replays(step)

    found = pretended_own(main)
    assert set(posted) == {2}
    assert len(found[2][0]) == len(posted)
    assert all(replays > 5 for _, replays in found)


DRAWS = {
    "dropout": lambda x: F.dropout(x, 0.5),
    "numbers of the host": lambda x: x * torch.rand(64),
}


@pytest.mark.parametrize("function", DRAWS.values(), ids=DRAWS)
def test_public_random_numbers_are_drawn_anew(function, on_gpu):
    def main(session):
        x, drawing = session.share(torch.ones(64), owner=0), session.repeated(function)
        return [session.reveal(drawing(x)) for _ in range(6)], num_replays(drawing)

    found = on_gpu(main)
    for results, replays in found:
        assert replays == 4
        assert len({tuple(one.tolist()) for one in results}) == 6
        assert all(map(torch.equal, results, found[0][0]))
