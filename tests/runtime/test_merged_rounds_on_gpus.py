"""Rounds merged on a GPU that is pretended: the bits of the order of the code, in fewer rounds."""

from __future__ import annotations

import threading

import pytest
import torch
from tests.runtime import merged_functions
from tests.runtime.merged_functions import CASES
from tests.runtime.pretended_gpu import pretended_own
from tests.runtime.test_plans_of_networks import NETWORKS, as_list, made
from tests.runtime.test_plans_with_merged_rounds import Attention, Branches, Residual
from torch import nn
from torch.nn import functional as F

from tacit.fixedpoint.flatten import tensors
from tacit.runtime.replay import plan_merging, segment_capture, segment_recording
from tacit.runtime.replay.ahead_messages import SegmentRound
from tacit.runtime.replay.plan import Begin
from tacit.runtime.replay.segment_rounds import PinnedExchange, SegmentExchange
from tacit.transport.wire.frames import SHORT_BYTES

__all__ = ["pretended_own"]

CALLS = 4  # two of them are replays
order = threading.local()  # of this party: whether it is that of the code


@pytest.fixture(autouse=True)
def _order_of_the_code(monkeypatch):
    """Lets a party record without merging."""
    merged_order = segment_recording.merged_order
    monkeypatch.setattr(
        segment_recording,
        "merged_order",
        lambda *args: None if getattr(order, "is_kept", False) else merged_order(*args),
    )


class Stacked(nn.Module):
    """Two recurrent layers, whose steps form a wavefront."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(3, 2, num_layers=2)

    def forward(self, x):
        return self.lstm(x)[0]


def recorded(session, make, inputs, is_kept):
    """What each call gives at this party, as words, and the summary; the masks are always the same.

    The function is called with the inputs in turn.
    """
    order.is_kept = is_kept
    streams = session.protocol.context.streams
    number = streams.number
    function = session.repeated(make())
    found = []
    for i in range(CALLS):
        made = function(*inputs[i % len(inputs)])
        leaves = made if isinstance(made, list | tuple) else [made]
        for x in leaves:
            found += [x] if type(x) is torch.Tensor else [y.cpu() for y in tensors(x.value)]
    streams.number = number
    [summary] = function.recordings
    assert summary.num_replays >= CALLS - 2
    [recording] = function._specializations[0].recordings
    return found, summary, recording._trace.plan


def compared(session, make, inputs):
    """The rounds of replays, merged and not, after they gave the same words in the same bytes."""
    words, summary, plan = recorded(session, make, inputs, is_kept=False)
    kept_words, kept, _ = recorded(session, make, inputs, is_kept=True)
    assert len(words) == len(kept_words) > 0
    assert all(map(torch.equal, words, kept_words))
    assert (summary.bytes_sent, summary.bytes_received) == (kept.bytes_sent, kept.bytes_received)
    assert summary.rounds_of_call == kept.rounds_of_call == kept.rounds
    assert summary.rounds == plan.num_rounds <= kept.rounds
    return summary.rounds, kept.rounds


def of_module(session, module, shape):
    torch.manual_seed(7)
    model = session.share(module().eval(), owner=0)
    inputs = [(session.share(x, owner=1),) for x in torch.randn(2, *shape)]
    return compared(session, lambda: lambda x: model(x).detach(), inputs)


@pytest.mark.parametrize(
    ("module", "shape", "settings"),
    [
        (Branches, (2, 6), {"protocol": "trio"}),
        (Branches, (2, 6), {"protocol": "replicated"}),
        (Residual, (1, 2, 5, 5), {"protocol": "trio"}),
        pytest.param(Attention, (1, 4, 6), {}, marks=pytest.mark.full("other branches run")),
        pytest.param(Stacked, (3, 1, 3), {}, marks=pytest.mark.full("other branches run")),
    ],
)
def test_independent_rounds_are_one_and_the_bits_are_the_same(
    module, shape, settings, pretended_own
):
    rounds, kept = max(pretended_own(of_module, module, shape, **settings), key=lambda x: x[1])
    assert rounds < kept
    assert module is not Branches or (rounds, kept) == (1, 3)


def of_network(session, name):
    network, inputs = made(name)
    model = session.share(network, owner=0)
    given = [(session.share(x, owner=1),) for x in inputs]
    with torch.no_grad():
        return compared(session, lambda: lambda x: as_list(model(x)), given)


# Their layers are in `bert` and in convolutions; replays without merging run them on this GPU.
LIKE_OTHERS = ("gpt2", "vit")


@pytest.mark.full("small networks run")
@pytest.mark.parametrize("name", [name for name in NETWORKS if name not in LIKE_OTHERS])
def test_networks_have_the_same_bits(name, pretended_own):
    for rounds, kept in pretended_own(of_network, name):
        assert rounds <= kept


def revealed(session):
    """Three reveals, one of which is to one party, and what the host makes of one of them."""
    weight = session.share(torch.arange(4.0), owner=0)
    inputs = [(session.share(x, owner=1),) for x in torch.randn(2, 3, 4)]

    def function(x):
        total, product = session.reveal(x.sum(0)), session.reveal(x @ weight, to=1)
        return [total, session.reveal(-x), 2 * total, *([] if product is None else [product])]

    rounds = compared(session, lambda: function, inputs)
    operations = [one.operation for one in session.reveals]
    return rounds, len(operations)


def test_several_reveals_are_one_round_and_each_is_recorded(pretended_own):
    found = pretended_own(revealed)
    assert found[0] == ((1, 2), 3 * 2 * CALLS)
    assert found[1] == ((2, 5), 3 * 2 * CALLS)  # a product, and what is revealed of it


def trained(session, is_kept):
    """The weights after some steps, and the summary of the recorded one."""
    order.is_kept = is_kept
    torch.manual_seed(8)
    model = session.share(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 3), nn.Linear(3, 2)), owner=0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step(x, y):
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    step, y = session.repeated(step), session.share(torch.ones(3, 2), owner=1)
    losses = [step(session.share(x, owner=1), y) for x in torch.randn(CALLS, 3, 4)]
    [summary] = step.recordings
    return [session.reveal(x.detach()) for x in (*losses, *model.parameters())], summary


def test_gradients_and_updates_of_all_parameters_share_rounds(pretended_own):
    merged, kept = pretended_own(trained, False), pretended_own(trained, True)
    for (found, summary), (wanted, without) in zip(merged, kept, strict=True):
        assert summary.rounds <= without.rounds == summary.rounds_of_call
        for one, other in zip(found, wanted, strict=True):
            torch.testing.assert_close(one, other, atol=1e-3, rtol=0)
    assert merged[1][1].rounds < kept[1][1].rounds


def kinds(plan):
    steps = (one.exchange if isinstance(one, Begin) else one for one in plan.steps)
    return {type(one) for one in steps if isinstance(one, SegmentRound)}


@pytest.mark.parametrize(
    ("size", "kind", "kept"),
    [
        (4, PinnedExchange, PinnedExchange),
        (SHORT_BYTES // 16, SegmentExchange, PinnedExchange),
        (SHORT_BYTES, SegmentExchange, SegmentExchange),
    ],
)
def test_messages_that_are_short_alone_may_be_long_together(size, kind, kept, pretended_own):
    given = torch.arange(float(size)) % 7

    def main(session):
        x = session.share(given, owner=0)
        found = [
            recorded(session, lambda: lambda x: [x * x, x * (x + 1)], [(x,)], is_kept=is_kept)
            for is_kept in (False, True)
        ]
        assert all(map(torch.equal, found[0][0], found[1][0]))
        return [kinds(plan) for _, _, plan in found]

    found = pretended_own(main)[1]
    assert found == [{kind}, {kept}]


def test_where_a_party_lacks_memory_nothing_is_merged(pretended_own, monkeypatch):
    monkeypatch.setattr(plan_merging, "SMALL_BYTES", 0)
    monkeypatch.setattr(plan_merging, "GROWTH", 0)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (0, 1 << 30))
    for rounds, kept in pretended_own(of_module, Branches, (2, 6)):
        assert rounds == kept


def test_what_writes_unknown_memory_is_not_merged(pretended_own, monkeypatch):
    """An operation that gives a tensor other memory, at one party: all leave their order."""
    monkeypatch.setattr(segment_capture, "MOVING", frozenset((torch.ops.aten.add,)))
    for rounds, kept in pretended_own(of_module, Branches, (2, 6)):
        assert rounds == kept


@pytest.mark.parametrize("name", CASES)
def test_users_never_get_the_memory_of_graphs(name, pretended_own):
    """What tests/gpu/test_merged_rounds.py does on a GPU."""
    rounds = pretended_own(lambda session: merged_functions.compared(session, name))
    assert all(merged <= of_call for merged, of_call in rounds)
    assert any(merged < of_call for merged, of_call in rounds)


def test_a_profile_tells_what_waits_for_the_gpu(pretended_own):
    def main(session):
        model = session.share(nn.Sequential(nn.Linear(4, 4), nn.ReLU()), owner=0)
        x = session.share(torch.rand(3, 4), owner=1)
        function = session.repeated(lambda x: model(x).detach())
        return [function.profile(x) for _ in range(4)][-1]

    told = pretended_own(main)
    assert all("starting work of the GPU" in one for one in told)
    assert "sending to party 2, after the GPU's work" in told[1]
