"""Plans of training steps: under the same masks, a replay has all bits of the step itself."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.optim import lr_scheduler

import tacit
from tacit.errors import PartyFailed, PublicMismatch
from tacit.fixedpoint.flatten import canonical, signature, tensors
from tacit.runtime.replay.recording import compute

RINGS = [{}, {"ring": 32, "fraction_bits": 12}]
BATCHES = torch.randn(12, 6, 4, generator=torch.Generator().manual_seed(1))


def network(*layers):
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(4, 5), *layers, nn.ReLU(), nn.Linear(5, 2)).train()


def training_step(model, optimizer):
    def step(x, y):
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


class State:
    """The secrets and public tensors of a model and its optimizer, to be put back and compared."""

    def __init__(self, session, model, optimizer):
        of_optimizer = [x for one in optimizer.state.values() for x in one.values()]
        found = [*model.parameters(), *model.buffers(), *of_optimizer]
        self._numbers = session.numbers
        self._secrets = [x for x in found if hasattr(x, "_cell")]
        self._public = [x for x in found if not hasattr(x, "_cell")]
        self._values = [x._cell.value for x in self._secrets]
        self._held = [x.clone() for x in self._public]
        self._random = torch.get_rng_state()

    def put_back(self):
        for x, value in zip(self._secrets, self._values, strict=True):
            x._cell.set(value)
        for x, held in zip(self._public, self._held, strict=True):
            x.copy_(held)
        torch.set_rng_state(self._random)

    def computed(self, result, model, cells):
        """Computes lazy values in the order in which the recording of these cells does."""
        for x in (result, *(parameter.grad for parameter in model.parameters())):
            signature(x.value)
        values = canonical(self._numbers, [cell.value for cell in cells])
        for cell, value in zip(cells, values, strict=True):
            cell.set(value)
        return result

    def now(self, result):
        """All words of this party's shares of a result and of the state, and the public numbers."""
        values = [x._cell.value for x in self._secrets]
        words = [part.clone() for x in (result.value, *values) for part in tensors(x)]
        return words + [x.clone() for x in self._public]


def step_with_closure(model, optimizer):
    step = training_step(model, SimpleNamespace(zero_grad=optimizer.zero_grad, step=lambda: None))
    return lambda x, y: optimizer.step(lambda: step(x, y))


def compared(
    session,
    make_optimizer,
    make=network,
    calls=6,
    between=lambda optimizer: None,
    make_step=training_step,
):
    """Whether the last call is replayed, and gives the bits of the same call without a replay."""
    model = session.share(make(), owner=0)
    optimizer = make_optimizer(model.parameters())
    function = make_step(model, optimizer)
    step = session.repeated(function)
    y = session.share(torch.ones(6, 2), owner=1)
    for x in BATCHES[: calls - 1]:
        step(session.share(x, owner=1), y)
        between(optimizer)
    [recording] = recordings_of(step)
    x, streams = session.share(BATCHES[calls - 1], owner=1), session.protocol.context.streams
    before, number = State(session, model, optimizer), streams.number
    result = step(x, y)
    assert [recording] == step._specializations[0].recordings
    after, replayed = streams.number, before.now(result)
    streams.number = number
    before.put_back()
    called = before.now(before.computed(function(x, y), model, recording._state))
    assert streams.number == after
    return all(map(torch.equal, replayed, called))


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)


@pytest.mark.parametrize("settings", RINGS, ids=str)
@pytest.mark.parametrize(
    "make",
    [network, lambda: network(nn.BatchNorm1d(5)), lambda: network(nn.Dropout(0.5))],
    ids=["linear", "batch norm", "dropout"],
)
def test_a_replayed_step_has_the_bits_of_the_step(make, settings):
    assert all(tacit.run(lambda session: compared(session, sgd, make), **settings))


def recordings_of(function):
    return [made for one in function._specializations for made in one.recordings]


def words_of(values):
    """All words of this party's shares."""
    return [part.clone() for value in values for part in tensors(value)]


def test_gradients_added_up_over_calls_have_the_bits_of_the_calls():
    """Two kinds of calls alternate: after `zero_grad` one sets gradients, the next adds to them."""

    def main(session):
        model = session.share(small(), owner=0)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def function(x):
            loss = model(x).square().sum()
            loss.backward()
            return loss.detach()

        step, streams, found = session.repeated(function), session.protocol.context.streams, []
        for x in BATCHES:
            x, grad = session.share(x, owner=1), model.weight.grad
            held = None
            if grad is not None:  # a replay begins with state that is settled
                [held] = canonical(session.numbers, [grad.value])
                grad._cell.set(held)
            replays = {one: one.summary().num_replays for one in recordings_of(step)}
            results = [step(x).value, model.weight.grad.value]
            for one in recordings_of(step):
                if one.summary().num_replays > replays.get(one, 0):
                    after, streams.number = streams.number, streams.number - one.plan.num_calls
                    is_grad = [cell is model.weight.grad._cell for cell in one._state]
                    model.weight.grad = held and tacit.SecretTensor(held, session.numbers)
                    again = [function(x).value, model.weight.grad.value]
                    compute(again)  # as a recording does: results first, then the state
                    state = [again[1] if each else model.weight.value for each in is_grad]
                    state = canonical(session.numbers, state)
                    again[1:] = [
                        x for x, each in zip(state, is_grad, strict=True) if each
                    ] or again[1:]
                    same = map(torch.equal, words_of(results), words_of(again))
                    found.append((grad is None, all(same) and streams.number == after))
            if grad is not None:
                optimizer.step()
                optimizer.zero_grad()
        return found

    for found in tacit.run(main):
        assert {was_none for was_none, _ in found} == {False, True}
        assert all(is_equal for _, is_equal in found)


def test_a_counter_that_is_read_runs_as_it_is(caplog):
    """A batch norm without a momentum divides by the number of batches that it has seen."""

    def main(session):
        model = session.share(network(nn.BatchNorm1d(5, momentum=None)), owner=0)
        step = session.repeated(lambda x: model(x).detach())
        for x in BATCHES[:5]:
            step(session.share(x, owner=1))
        return int(model[1].num_batches_tracked), session.reveal(model[1].running_mean)

    plain = network(nn.BatchNorm1d(5, momentum=None))
    for x in BATCHES[:5]:
        plain(x)
    for count, mean in tacit.run(main):
        assert count == 5
        torch.testing.assert_close(mean, plain[1].running_mean, atol=1e-3, rtol=0)
    assert "it reads a number that may differ the next time: it runs as it is" in caplog.text


def small():
    torch.manual_seed(3)
    return nn.Linear(4, 2, bias=False)


ADAPTIVE = pytest.mark.full("Adam runs")
OPTIMIZERS = [
    (torch.optim.Adam, {"weight_decay": 0.1}),
    pytest.param(torch.optim.Adam, {"foreach": True}, marks=ADAPTIVE),
    pytest.param(torch.optim.AdamW, {"amsgrad": True}, marks=ADAPTIVE),
    pytest.param(torch.optim.RMSprop, {"momentum": 0.5}, marks=ADAPTIVE),
    pytest.param(torch.optim.Adagrad, {"lr_decay": 0.1}, marks=ADAPTIVE),
    pytest.param(torch.optim.NAdam, {}, marks=ADAPTIVE),
    pytest.param(torch.optim.Adamax, {}, marks=ADAPTIVE),
    pytest.param(torch.optim.Adadelta, {}, marks=ADAPTIVE),
    (torch.optim.Rprop, {}),
]


@pytest.mark.parametrize(("kind", "settings"), OPTIMIZERS)
def test_an_optimizer_that_counts_has_the_bits_of_its_step(kind, settings):
    def make(parameters):
        return kind(parameters, lr=0.01, **settings)

    assert all(tacit.run(lambda session: compared(session, make, small, calls=7)))


def test_a_counting_optimizer_with_a_closure_has_the_bits_of_its_step():
    def main(session):
        def make(parameters):
            return torch.optim.Adagrad(parameters, lr=0.01, lr_decay=0.1)

        return compared(session, make, small, make_step=step_with_closure)

    assert all(tacit.run(main))


def test_a_step_of_many_tensors_has_the_bits_of_the_step():
    """The tensors of a model are joined, and the bias corrections of all of them are equal."""

    def make(parameters):
        return torch.optim.AdamW(parameters, lr=0.01)

    assert all(tacit.run(lambda session: compared(session, make, calls=7)))


def decay(optimizer):
    optimizer.param_groups[0]["lr"] *= 0.97


@pytest.mark.parametrize("settings", RINGS, ids=str)
def test_a_learning_rate_may_change_in_every_call(settings):
    def make(parameters):
        return torch.optim.SGD(parameters, lr=0.12, weight_decay=0.1)

    assert all(tacit.run(lambda session: compared(session, make, between=decay), **settings))


@pytest.mark.full("Rprop has public tensors, and Adam factors")
def test_an_optimizer_that_divides_a_number_by_a_secret_has_the_bits_of_its_step():
    """From its sixth step on, RAdam divides a number that is another one in every step."""

    def make(parameters):
        return torch.optim.RAdam(parameters, lr=0.05, decoupled_weight_decay=True, weight_decay=0.1)

    assert all(tacit.run(lambda session: compared(session, make, small, calls=11)))


@pytest.mark.full("test_steps_are_those_of_the_plain_optimizer has its steps, unrecorded")
@pytest.mark.parametrize("foreach", [False, True])
def test_radam_has_the_bits_of_its_step_in_a_list_too(foreach):
    """Its first five steps are not divided by roots; in a list, torch divides them by zero."""

    def make(parameters):
        return torch.optim.RAdam(parameters, lr=0.05, foreach=foreach)

    assert all(tacit.run(lambda session: compared(session, make, small, calls=11)))


@pytest.mark.parametrize("rate", [0.0901, 0.01])
def test_a_party_with_another_learning_rate_is_noticed_in_a_replay(rate):
    """With 0.01 that party would not replay but record again: its decisions differ."""

    def main(session):
        model = session.share(small(), owner=0)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        step = session.repeated(training_step(model, optimizer))
        x, y = (session.share(torch.ones(6, size), owner=1) for size in (4, 2))
        for i in range(6):
            optimizer.param_groups[0]["lr"] -= 0.002
            if i == 5 and session.rank == 1:
                optimizer.param_groups[0]["lr"] = rate
            step(x, y)
        return session.reveal(model.weight.detach())

    with pytest.raises(PartyFailed) as caught:
        tacit.run(main)
    assert isinstance(caught.value.__cause__, PublicMismatch)


@pytest.mark.parametrize("is_first", [False, True])
def test_a_scheduler_within_the_function_runs_as_it_is(is_first, caplog):
    def main(session):
        model = session.share(small(), owner=0)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        inner = training_step(model, optimizer)

        def step(x, y):
            if is_first:
                decay(optimizer)
            loss = inner(x, y)
            if not is_first:
                decay(optimizer)
            return loss

        step = session.repeated(step)
        x, y = (session.share(torch.ones(6, size), owner=1) for size in (4, 2))
        for _ in range(6):
            step(x, y)
        return optimizer.param_groups[0]["lr"]

    assert tacit.run(main) == [pytest.approx(0.1 * 0.97**6)] * 3
    assert "settings of an optimizer (call its scheduler outside): it runs as it is" in caplog.text


@pytest.mark.full("test_an_optimizer_that_counts_has_the_bits_of_its_step")
def test_adam_is_recorded_twice_in_all_its_steps():
    """Its bias corrections change in every step, most of them at first."""

    def main(session):
        model = session.share(small(), owner=0)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01, eps=1e-4)
        step, made = session.repeated(training_step(model, optimizer)), []
        x, y = (session.share(torch.ones(6, size), owner=1) for size in (4, 2))
        for count in [*range(1, 12), 31, 32, 120, 287, 288, 5000, 5001]:
            for state in optimizer.state.values():
                state["step"].fill_(count - 1)
            step(x, y)
            made += [one for one in recordings_of(step) if one not in made]
        return len(made)

    assert tacit.run(main) == [2] * 3


SCHEDULES = {
    "steps": lambda o: lr_scheduler.StepLR(o, 2, 0.5),
    "in sequence": lambda o: lr_scheduler.SequentialLR(
        o, [lr_scheduler.LinearLR(o, 0.1, total_iters=4), lr_scheduler.ExponentialLR(o, 0.9)], [4]
    ),
    "a lambda": lambda o: lr_scheduler.LambdaLR(o, lambda epoch: 1 / (1 + epoch)),
}


def test_betas_that_a_scheduler_changes_are_factors():
    def train(session, repeated):
        model = session.share(small(), owner=0)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01, eps=1e-4)
        scheduler = lr_scheduler.OneCycleLR(optimizer, 0.02, total_steps=40)
        inner = training_step(model, optimizer)

        def step(x, y):
            inner(x, y)
            scheduler.step()

        step, y = repeated(step), session.share(torch.ones(6, 2), owner=1)
        for x in BATCHES[:8]:
            step(session.share(x, owner=1), y)
        return session.reveal(model.weight.detach()), optimizer.param_groups[0]["betas"], step

    def main(session):
        expected, betas, _ = train(session, lambda step: step)
        found, replayed_betas, step = train(session, session.repeated)
        assert betas == replayed_betas != (0.95, 0.999)
        torch.testing.assert_close(found, expected, atol=2e-3, rtol=0)
        return sum(one.num_replays for one in step.recordings)

    assert min(tacit.run(main)) > 1


@pytest.mark.parametrize("make", SCHEDULES.values(), ids=SCHEDULES)
def test_a_scheduler_steps_in_every_replay(make):
    def train(model, share, repeated):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5)
        nest = {"scheduler": make(optimizer)}
        inner, rates = training_step(model, optimizer), []

        def step(x, y):
            loss = inner(x, y)
            nest["scheduler"].step()
            return loss

        step, y = repeated(step), share(torch.ones(6, 2))
        for x in BATCHES[:9]:
            step(share(x), y)
            rates.append(optimizer.param_groups[0]["lr"])
        return rates, step

    def main(session):
        model = session.share(small(), owner=0)
        rates, step = train(model, lambda x: session.share(x, owner=1), session.repeated)
        replays = sum(one.num_replays for one in step.recordings)
        return rates, session.reveal(model.weight.detach()), replays

    plain = small()
    expected, _ = train(plain, lambda x: x, lambda step: step)
    for rates, weight, replays in tacit.run(main):
        assert rates == expected
        assert replays > 0
        torch.testing.assert_close(weight, plain.weight.detach(), atol=3e-3, rtol=0)
