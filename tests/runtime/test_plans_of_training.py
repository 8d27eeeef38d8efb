"""Plans of training steps: under the same masks, a replay has all bits of the step itself."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import tacit
from tacit.fixedpoint.flatten import canonical, signature, tensors

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


def is_recorded(function) -> bool:
    return any(one._recording is not None for one in function._specializations)


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


def compared(session, make_optimizer, layers=(), calls=6):
    """Whether the last call is replayed, and gives the bits of the same call without a replay."""
    model = session.share(network(*[layer() for layer in layers]), owner=0)
    optimizer = make_optimizer(model.parameters())
    function = training_step(model, optimizer)
    step = session.repeated(function)
    y = session.share(torch.ones(6, 2), owner=1)
    for x in BATCHES[: calls - 1]:
        step(session.share(x, owner=1), y)
    assert is_recorded(step)
    x, streams = session.share(BATCHES[calls - 1], owner=1), session.protocol.context.streams
    before, number = State(session, model, optimizer), streams.number
    result = step(x, y)
    assert is_recorded(step)
    [recording] = [one._recording for one in step._specializations]
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
    "layers",
    [(), (lambda: nn.BatchNorm1d(5),), (lambda: nn.Dropout(0.5),)],
    ids=["", "norm", "drop"],
)
def test_a_replayed_step_has_the_bits_of_the_step(layers, settings):
    assert all(tacit.run(lambda session: compared(session, sgd, layers), **settings))


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
