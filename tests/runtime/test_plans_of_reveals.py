"""Plans of functions that reveal: what is opened, to whom, and the record of it."""

from __future__ import annotations

import pytest
import torch

import tacit
from tacit.errors import PartyFailed, PrivacyBudgetExceeded, RevealForbidden

XS = torch.randn(7, 5, generator=torch.Generator().manual_seed(2))
SETTINGS = [
    {"protocol": "trio"},
    {"protocol": "trio", "ring": 32, "fraction_bits": 12},
    {"protocol": "replicated"},
    {"protocol": "additive", "parties": 2},
    {"protocol": "quad", "parties": 4},
    pytest.param({"protocol": "beaver"}, marks=pytest.mark.full("additive runs")),
    pytest.param({"transport": "processes"}, marks=pytest.mark.full("threads run")),
]


def num_recorded(function) -> int:
    return len(function.recordings)


def positive_and_sum(session):
    """Reveals bits to all and a number to party 1, in seven calls of which four are replayed."""

    def function(x):
        y = x * x
        return session.reveal(x > 0), session.reveal(y.sum(), to=1), y.detach()

    function = session.repeated(function)
    found = []
    for x in XS:
        bits, total, squares = function(session.share(x, owner=0))
        found.append((bits, total, session.reveal(squares)))
    return found, num_recorded(function), session.reveals


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_what_a_replay_reveals_is_right_and_recorded(settings):
    parties = settings.get("parties", 3)
    for rank, (found, recorded, reveals) in enumerate(tacit.run(positive_and_sum, **settings)):
        assert recorded == 1
        for x, (bits, total, squares) in zip(XS, found, strict=True):
            assert torch.equal(bits, x > 0)
            torch.testing.assert_close(squares, x * x, atol=2e-3, rtol=0)
            if rank == 1:
                torch.testing.assert_close(total, (x * x).sum(), atol=5e-3, rtol=0)
            else:
                assert total is None
        if rank >= parties:
            continue
        assert len(reveals) == 3 * len(XS)
        assert [one.number for one in reveals] == [*range(1, 1 + len(reveals))]
        operations = [one.operation for one in reveals]
        assert operations == sorted(set(operations))
        for first, second, _ in zip(*[iter(reveals)] * 3, strict=True):
            assert (first.shape, first.dtype, len(first.to)) == ((5,), "bool", parties)
            assert (second.shape, second.dtype, second.to) == ((), "float32", ("party1",))
            assert "test_plans_of_reveals.py" in first.where
            assert first.where == reveals[0].where


def test_under_the_same_masks_a_replay_reveals_the_bits_of_a_call():
    def main(session):
        def plain(x):
            return session.reveal((x * x).relu())

        function = session.repeated(plain)
        x = session.share(XS[0], owner=0)
        for _ in range(3):
            function(x)
        streams = session.protocol.context.streams
        number = streams.number
        replayed = function(x)
        after, streams.number = streams.number, number
        called = plain(x)
        assert streams.number == after
        assert replayed.data_ptr() != function(x).data_ptr()
        return torch.equal(called, replayed)

    assert all(tacit.run(main))


def test_what_is_revealed_may_be_used_as_a_tensor():
    def main(session):
        mean = session.repeated(lambda x: session.reveal(x.sum()) / 5 + 1)
        found = torch.stack([mean(session.share(x, owner=0)) for x in XS])
        return found, num_recorded(mean)

    for found, recorded in tacit.run(main):
        torch.testing.assert_close(found, XS.mean(1) + 1, atol=1e-3, rtol=0)
        assert recorded == 1


READERS = {
    "item": lambda x: x.sum().item(),
    "tolist": lambda x: sum(x.tolist()),
    "numpy": lambda x: float(x.numpy().sum()),
    "if": lambda x: 1.0 if x.sum() > 0 else 0.0,
}


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_a_function_that_reads_what_it_reveals_runs_as_it_is(read, caplog):
    def main(session):
        function = session.repeated(lambda x: read(session.reveal(x * 1)))
        found = [function(session.share(x, owner=0)) for x in XS]
        return found, num_recorded(function)

    for found, recorded in tacit.run(main):
        assert found == pytest.approx([read(x) for x in XS], abs=1e-3)
        assert recorded == 0
    assert "it reads a number that may differ the next time: it runs as it is" in caplog.text


def test_a_function_that_keeps_what_it_reveals_runs_as_it_is(caplog):
    class Log:
        def __init__(self):
            self.kept = []

    def main(session):
        log, hidden = Log(), "".join(("ke", "pt"))  # nobody sees which attribute the code names

        def function(x):
            getattr(log, hidden).append(session.reveal(x * 1))
            return x * 2

        function = session.repeated(function)
        for x in XS:
            function(session.share(x, owner=0))
        return torch.stack(log.kept)

    for kept in tacit.run(main):
        torch.testing.assert_close(kept, XS, atol=1e-3, rtol=0)
    assert "it keeps a tensor that it reveals (clone it): it runs as it is" in caplog.text


def test_the_policy_is_asked_in_every_replay():
    def main(session):
        function = session.repeated(lambda x: session.reveal(x, to=1))
        x = session.share(XS[0], owner=0)
        for _ in range(4):
            function(x)
        assert num_recorded(function) == 1
        session.protocol.context.reveal_policy._allowed = (0,)
        function(x)

    with pytest.raises(PartyFailed) as caught:
        tacit.run(main)
    assert isinstance(caught.value.__cause__, RevealForbidden)


def refused_after_writes(session, repeats):
    """A function that writes before and after it reveals; two of its reveals are refused.

    A budget of privacy, which is set late, refuses all that say no cost.
    """
    written = session.share(torch.zeros(5), owner=0)
    x, found = session.share(XS[0], owner=0), list[torch.Tensor]()
    optimizer = torch.optim.SGD([session.share(torch.ones(5), owner=0)], lr=0.5)
    [weight] = optimizer.param_groups[0]["params"]
    weight.requires_grad_()

    def function(x):
        optimizer.zero_grad()
        (weight * x).sum().backward()
        optimizer.step()
        with torch.no_grad():
            written.add_(x)
            squares = session.reveal(written * written)
            written.mul_(0.5)
        return squares

    function = session.repeated(function) if repeats else function
    found += [function(x) for _ in range(5)]
    session.limit_privacy(1.0, 1e-5)
    for _ in range(2):
        with pytest.raises(PrivacyBudgetExceeded):
            function(x)
    session.protocol.context.reveal_policy._budget = None
    found += [function(x) for _ in range(3)]
    found += [session.reveal(written), session.reveal(weight.detach())]
    return found, sum(one.num_replays for one in function.recordings) if repeats else 0


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_a_refused_reveal_leaves_what_the_function_wrote_before(settings):
    called, replayed = (
        tacit.run(refused_after_writes, repeats, **settings) for repeats in (False, True)
    )
    for (expected, _), (found, replays) in zip(called, replayed, strict=True):
        assert replays >= 5
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one, other, atol=5e-2, rtol=1e-3)
