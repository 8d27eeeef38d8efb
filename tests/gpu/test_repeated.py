"""Functions that are recorded on a GPU: the same results, fresh masks, and what is not recorded."""

import copy
import logging
from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import tacit

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no GPU here")

CALLS = 6
# Parties that are threads are recorded as one graph; each process as graphs between its rounds.
TRANSPORTS = pytest.mark.parametrize("transport", ["threads", "processes"])


def network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 8, 3),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32, 10),
    )


torch.manual_seed(3)
LINEAR = nn.Linear(4, 1)
NETWORK = network()  # made once: parties that are threads share torch's generator


def pictures(count: int) -> torch.Tensor:
    """Such that no ReLU or maximum of the trainings is so near a tie that rounding decides it."""
    return torch.rand(count, 2, 3, 8, 8, generator=torch.Generator().manual_seed(231)) * 2 - 1


def a_part(y):
    parts = y.value.share.parts
    return parts[min(parts)].cpu()


def infer_often(session, count=CALLS):
    model = session.share(copy.deepcopy(NETWORK), owner=0)

    def infer(x):
        with torch.no_grad():
            return model(x)

    infer = session.repeated(infer)
    found = []
    for x in pictures(count):
        y = infer(session.share(x, owner=1))
        found.append((session.reveal(y), a_part(y)))
    again = infer(session.share(x, owner=1))
    found.append((session.reveal(again), a_part(again)))
    recordings = [made for one in infer._specializations for made in one.recordings]
    return found, [one is not None for one in recordings], session.stats.rounds


@TRANSPORTS
def test_a_recorded_inference_is_right_with_every_input(transport) -> None:
    for found, is_recorded, _ in tacit.run(infer_often, device="cuda", transport=transport):
        assert is_recorded == [True]
        model = NETWORK
        for x, (y, _) in zip(pictures(CALLS), found, strict=False):
            torch.testing.assert_close(y, model(x).detach(), atol=2e-3, rtol=0)


@TRANSPORTS
def test_masks_are_fresh_in_each_repetition(transport) -> None:
    for found, _, _ in tacit.run(infer_often, device="cuda", transport=transport):
        (_, last), (_, again) = found[-2:]  # of the same input
        assert (last != again).float().mean() > 0.99


def rounds(session, count):
    model = session.share(copy.deepcopy(NETWORK), owner=0)
    infer = session.repeated(lambda x: model(x).detach())
    x = session.share(pictures(1)[0], owner=1)
    for _ in range(count):
        with session.stats.scope("one") as cost:
            infer(x)
    return cost.rounds, cost.bytes_sent, cost.messages


@TRANSPORTS
def test_rounds_are_counted_as_if_it_were_not_recorded(transport) -> None:
    run = {"device": "cuda", "transport": transport}
    assert tacit.run(rounds, 1, **run) == tacit.run(rounds, 5, **run)


def train_often(session, is_recorded, make_optimizer):
    model = session.share(copy.deepcopy(NETWORK), owner=0)
    optimizer = make_optimizer(model.parameters())

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    step = session.repeated(step) if is_recorded else step
    y = session.share(F.one_hot(torch.tensor([1, 7]), 10).float(), owner=1)
    losses = []
    for i, x in enumerate(pictures(10)):
        if i == 7:
            optimizer.param_groups[0]["lr"] = 0.02
        losses.append(session.reveal(step(session.share(x, owner=1), y)))
        if i == 5:  # somebody else writes to a parameter
            with torch.no_grad():
                model[0].bias.mul_(0.5)
    return torch.stack(losses), session.reveal(model).state_dict()


@TRANSPORTS
@pytest.mark.parametrize(
    "make_optimizer",
    [
        partial(torch.optim.SGD, lr=0.1),
        partial(torch.optim.SGD, lr=0.1, momentum=0.9),
    ],
    ids=["SGD", "momentum"],
)
def test_a_recorded_training_is_the_training(make_optimizer, transport) -> None:
    run = {"device": "cuda", "transport": transport}
    plain = tacit.run(train_often, False, make_optimizer, **run)[0]
    recorded = tacit.run(train_often, True, make_optimizer, **run)[0]
    torch.testing.assert_close(recorded[0], plain[0], atol=5e-3, rtol=0)
    for name, tensor in plain[1].items():
        torch.testing.assert_close(recorded[1][name], tensor, atol=2e-3, rtol=0)


def num_replays(function) -> int:
    return sum(one.num_replays for one in function.recordings)


INPUTS = torch.rand(CALLS, 8, 4, generator=torch.Generator().manual_seed(5)) + 0.5


def adapt_often(session, layers, make_optimizer, is_recorded):
    """Every gradient is far from zero: where one is not, Adam's step depends on rounding."""
    model = session.share(copy.deepcopy(layers), owner=0)
    optimizer = make_optimizer(model.parameters())

    def step(x):
        optimizer.zero_grad()
        loss = (model(x) - 5).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    step = session.repeated(step) if is_recorded else step
    losses = [session.reveal(step(session.share(x, owner=1))) for x in INPUTS]
    found = torch.stack(losses), *session.reveal(model).state_dict().values()
    return found, num_replays(step) if is_recorded else 0


@TRANSPORTS
@pytest.mark.parametrize(
    ("layers", "make_optimizer"),
    [
        (LINEAR, partial(torch.optim.Adam, lr=0.05)),
        (LINEAR, partial(torch.optim.AdamW, lr=0.05, amsgrad=True)),
        (LINEAR, partial(torch.optim.NAdam, lr=0.05)),
        (
            nn.Sequential(copy.deepcopy(LINEAR), nn.BatchNorm1d(1)),
            partial(torch.optim.SGD, lr=0.1),
        ),
    ],
    ids=["Adam", "AdamW", "NAdam", "batch norm"],
)
def test_a_training_that_counts_is_replayed(layers, make_optimizer, transport) -> None:
    run = {"device": "cuda", "transport": transport}
    (plain, _), *_ = tacit.run(adapt_often, layers, make_optimizer, False, **run)
    for found, replays in tacit.run(adapt_often, layers, make_optimizer, True, **run):
        assert replays >= 2
        for one, other in zip(found, plain, strict=True):
            torch.testing.assert_close(one, other, atol=5e-3, rtol=0)


def share_and_reveal(session):
    """Shares its argument, and reveals the sum to all and a product to party 1."""
    weight = session.share(torch.arange(4.0), owner=0)

    def function(x):
        secret = session.share(x, owner=1)
        return session.reveal(secret.sum(0)), session.reveal(secret @ weight, to=1)

    function = session.repeated(function)
    found = [function(x if session.rank == 1 else torch.zeros_like(x)) for x in INPUTS]
    return found, num_replays(function), [one.operation for one in session.reveals]


@TRANSPORTS
def test_what_is_shared_and_revealed_is_new_in_every_replay(transport) -> None:
    found = tacit.run(share_and_reveal, device="cuda", transport=transport)
    for rank, (results, replays, operations) in enumerate(found):
        assert replays == CALLS - 2
        assert operations == sorted(set(operations))
        assert len(operations) == 2 * CALLS
        for x, (total, product) in zip(INPUTS, results, strict=True):
            torch.testing.assert_close(total, x.sum(0), atol=2e-3, rtol=0)
            if rank == 1:
                torch.testing.assert_close(product, x @ torch.arange(4.0), atol=2e-3, rtol=0)


def drop_out(session):
    model = session.share(nn.Dropout(0.75), owner=0)
    function = session.repeated(lambda x: model(x).detach())
    x = session.share(torch.ones(60), owner=0)
    found = torch.stack([session.reveal(function(x)) for _ in range(CALLS)])
    assert sum(one.num_replays for one in function.recordings) == CALLS - 2
    return found


@TRANSPORTS
def test_dropout_draws_anew_in_every_call(transport) -> None:
    found, *others = tacit.run(drop_out, device="cuda", transport=transport)
    torch.testing.assert_close(found, 4.0 * (found > 2), atol=1e-3, rtol=0)
    assert len({tuple(row) for row in (found > 2).tolist()}) == CALLS
    assert all(torch.equal(other, found) for other in others)


def train_apart(session, is_recorded):
    """The optimizer is outside of what is recorded; gradients of two calls are added up."""
    model = session.share(copy.deepcopy(NETWORK), owner=0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def gradients(x, y):
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        return loss.detach()

    gradients = session.repeated(gradients) if is_recorded else gradients
    y = session.share(F.one_hot(torch.tensor([1, 7]), 10).float(), owner=1)
    losses = []
    for i, x in enumerate(pictures(12)):
        losses.append(session.reveal(gradients(session.share(x, owner=1), y)))
        if i % 2:
            optimizer.step()
            optimizer.zero_grad(set_to_none=i < 6)
    return torch.stack(losses), session.reveal(model).state_dict()


def look_up(session):
    """Rows that public numbers choose; these lie on the host."""
    table = session.share(torch.arange(12.0).reshape(6, 2), owner=0)
    chosen = torch.tensor([[1, 5], [0, 3]])
    infer = session.repeated(lambda x: F.embedding(chosen, x) + x[chosen])
    for _ in range(CALLS):
        y = infer(table)
    return session.reveal(y), [bool(one.recordings) for one in infer._specializations]


@TRANSPORTS
def test_numbers_of_the_host_choose_rows_of_a_secret(transport) -> None:
    table, chosen = torch.arange(12.0).reshape(6, 2), torch.tensor([[1, 5], [0, 3]])
    for y, is_recorded in tacit.run(look_up, device="cuda", transport=transport):
        assert is_recorded == [True]
        torch.testing.assert_close(y.cpu(), 2 * table[chosen])


def test_gradients_of_a_recorded_function_are_there_outside() -> None:
    plain = tacit.run(train_apart, False, device="cuda")[0]
    recorded = tacit.run(train_apart, True, device="cuda")[0]
    torch.testing.assert_close(recorded[0], plain[0], atol=5e-3, rtol=0)
    for name, tensor in plain[1].items():
        torch.testing.assert_close(recorded[1][name], tensor, atol=2e-3, rtol=0)


def test_streams_do_not_run_out_of_recordings() -> None:
    """torch has 32 streams of a kind and hands them out again, but none that is being recorded."""

    def main(session):
        found = []
        for number in range(14):
            infer = session.repeated(lambda x, i=number: x * torch.arange(4.0) + i)
            x = session.share(torch.full((4,), float(number)), owner=0)
            found.append([session.reveal(infer(x)) for _ in range(4)])
        return torch.stack([torch.stack(some) for some in found])

    found = tacit.run(main, device="cuda")[0]
    numbers = torch.arange(14.0)[:, None, None]
    expected = (numbers * torch.arange(4.0) + numbers).expand(14, 4, 4)
    torch.testing.assert_close(found, expected, atol=1e-3, rtol=0)


def test_a_module_in_another_mode_is_recorded_anew() -> None:
    def main(session):
        model = nn.Sequential(copy.deepcopy(LINEAR), nn.BatchNorm1d(1, momentum=0.0))
        model[1].num_batches_tracked = None
        model = session.share(model, owner=0)
        infer = session.repeated(lambda x: model(x).detach())
        found = []
        for i in range(8):
            model.train(i < 4)
            found.append(session.reveal(infer(session.share(pictures(1)[0, 0, 0, :, :4], owner=1))))
        return torch.stack(found)

    found = tacit.run(main, device="cuda")[0]
    x = pictures(1)[0, 0, 0, :, :4]
    model = nn.Sequential(copy.deepcopy(LINEAR), nn.BatchNorm1d(1, momentum=0.0))
    expected = [model.train(i < 4)(x).detach() for i in range(8)]
    torch.testing.assert_close(found, torch.stack(expected), atol=5e-3, rtol=0)


def test_what_cannot_be_repeated_runs_as_it_is(caplog) -> None:
    def main(session):
        x = session.share(torch.arange(4.0), owner=0)
        counter = torch.zeros(())

        def counts(x):
            counter.add_(1)
            return x * float(counter)

        def opens(x):
            return x * float(session.reveal(x).sum())

        counts, opens = session.repeated(counts), session.repeated(opens)
        first = [session.reveal(counts(x)) for _ in range(5)]
        return torch.stack(first), torch.stack([session.reveal(opens(x)) for _ in range(5)])

    with caplog.at_level(logging.WARNING, logger="tacit"):
        counted, opened = tacit.run(main, device="cuda")[0]
    assert torch.allclose(counted, torch.arange(1.0, 6).outer(torch.arange(4.0)), atol=1e-3)
    assert torch.allclose(opened, torch.arange(4.0).mul(6).expand(5, 4), atol=1e-3)
    assert "it reads a number that may differ the next time" in caplog.text


def test_a_state_that_was_kept_stays_what_it_was() -> None:
    def main(session):
        model = session.share(copy.deepcopy(LINEAR), owner=0)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def step(x):
            optimizer.zero_grad()
            model(x).square().sum().backward()
            optimizer.step()

        step, x = session.repeated(step), session.share(torch.ones(2, 4), owner=1)
        kept, seen = [], []
        for _ in range(6):
            step(x)
            kept.append(model.weight.detach().clone())
            seen.append(session.reveal(model.weight.detach()))
        return torch.stack([session.reveal(one) for one in kept]), torch.stack(seen)

    kept, seen = tacit.run(main, device="cuda")[0]
    torch.testing.assert_close(kept, seen, atol=2**-15, rtol=0)
    assert (seen[1:] - seen[:-1]).abs().max() > 1e-3


def test_a_party_that_fails_in_a_recorded_function_ends_the_run() -> None:
    def main(session):
        x = session.share(torch.ones(4), owner=0)
        count = [0]

        def function(x):
            count[0] += 1
            if session.rank == 1 and count[0] == 3:
                raise ValueError("on purpose")
            return x * x

        function = session.repeated(function)
        for _ in range(5):
            function(x)

    with pytest.raises(tacit.errors.PartyFailed, match="on purpose"):
        tacit.run(main, device="cuda", deadline=5.0)
