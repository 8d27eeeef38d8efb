"""Plans of single parties: what a replay computes, draws and sends is what the function would."""

from __future__ import annotations

import copy
import gc
import logging
from itertools import pairwise
from types import SimpleNamespace
from weakref import ref

import numpy
import pytest
import torch
from hypothesis import given, seed
from hypothesis import strategies as st
from tests.tiers import FULL, draws
from torch import nn
from torch.nn import functional as F

import tacit
from tacit.errors import CheatingDetected, ForkedUse
from tacit.kernels.backend import load_native
from tacit.protocols import randomness
from tacit.protocols.masked import compare
from tacit.protocols.steps import Round
from tacit.ring.drawn_numbers import UNBOUNDED, Drawn, drawn, note, scaled, scaled_mask
from tacit.runtime.replay import plan_recorder, repeated
from tacit.runtime.replay.arena import Arena
from tacit.runtime.replay.plan import Begin, Draw, Exchange
from tacit.runtime.replay.small_work import small_work
from tacit.runtime.replay.step_times import StepTimes
from tacit.testing import Corruption, manipulations_of, messages_of, run_corrupted

torch.manual_seed(5)
SMALL = nn.Sequential(
    nn.Conv2d(1, 3, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(48, 4)
).eval()
PICTURES = torch.randn(6, 2, 1, 8, 8)
WANTED = torch.stack([SMALL(x) for x in PICTURES]).detach()


def recordings_of(function):
    return [made for one in function._specializations for made in one.recordings]


def plan_of(function):
    [recording] = recordings_of(function)
    return recording.plan


def infer(session):
    """Outputs for six inputs of which the last three are replayed, and what they cost."""
    model = session.share(copy.deepcopy(SMALL), owner=0)
    function = session.repeated(lambda x: model(x).detach())
    found, costs = [], []
    for x in PICTURES:
        x = session.share(x, owner=1)
        with session.stats.scope("call") as cost:
            y = function(x)
        costs.append((cost.rounds, cost.bytes_sent))
        found.append(session.reveal(y))
    return torch.stack(found), costs, len(plan_of(function).steps)


SETTINGS = [
    {"protocol": "trio"},
    {"protocol": "trio", "ring": 32, "fraction_bits": 12},
    {"protocol": "replicated"},
    {"protocol": "additive", "parties": 2},
    {"protocol": "quad", "parties": 4},
    pytest.param({"protocol": "beaver"}, marks=pytest.mark.full("additive runs")),
    pytest.param({"protocol": "additive", "parties": 3}, marks=pytest.mark.full("two run")),
    pytest.param(
        {"protocol": "quad", "parties": 4, "ring": 32, "fraction_bits": 12},
        marks=pytest.mark.full("64"),
    ),
    pytest.param({"truncation": "probabilistic"}, marks=pytest.mark.full("exact runs")),
    pytest.param({"transport": "processes"}, marks=pytest.mark.full("threads run")),
    pytest.param(
        {"transport": "processes", "protocol": "quad", "parties": 4}, marks=pytest.mark.full("trio")
    ),
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_a_replay_is_right_and_sends_as_much_as_a_call(settings):
    for found, costs, steps in tacit.run(infer, **settings):
        torch.testing.assert_close(found, WANTED, atol=0.02, rtol=0)
        assert costs[-1] == costs[-2]
        rounds, sent = costs[0]
        assert costs[-1][0] <= rounds
        assert costs[-1][1] == sent
        assert steps > 10


@pytest.mark.parametrize("protocol", ["trio", "replicated"])
def test_a_summary_tells_what_a_replay_costs(protocol):
    def main(session):
        model = session.share(copy.deepcopy(SMALL), owner=0)
        function = session.repeated(lambda x: model(x).detach())
        assert "not recorded" in function.summary()
        for x in PICTURES[:4]:
            x = session.share(x, owner=1)
            with session.stats.scope("call") as cost:
                function(x)
        [found] = function.recordings
        assert (found.arguments, found.num_replays) == (((2, 1, 8, 8),), 1)
        assert 0 < found.num_draws < found.num_calls <= len(plan_of(function).steps)
        assert found.memory_bytes > sum(x.nbytes for x in (PICTURES[0], WANTED[0]))
        assert f"{found.rounds} rounds" in function.summary()
        assert f"{found.bytes_sent:,} bytes sent" in function.summary()
        return (found.rounds, found.bytes_sent, found.bytes_received) == (
            cost.rounds,
            cost.bytes_sent,
            cost.bytes_received,
        )

    assert all(tacit.run(main, protocol=protocol))


@pytest.mark.parametrize("transport", ["threads", "processes"])
def test_a_profile_tells_for_whom_a_party_waits(transport):
    first, *others = tacit.run(profiled, transport=transport)
    for before, after, is_right in (first, *others):
        assert "not replayed" in before
        assert "not replayed" not in after
        assert "ms computing, " in after
        assert is_right
    assert "sending to party 2" in first[1]
    assert "waiting for" not in first[1]
    for mine, other in ((1, 2), (2, 1)):
        shown = others[mine - 1][1]
        assert f"waiting for the message of party {other}, " in shown
        assert ("waiting for what party 0 deals" in shown) == (mine == 2)


def test_a_profile_has_a_name_for_a_round_without_messages():
    times = StepTimes()
    mesh = SimpleNamespace(
        begin=lambda *_, **__: "opened", finish=lambda _: {}, fixed_round=no_round
    )
    times.run([Exchange(mesh, Round(), {}, {}, 1)], 1)
    assert times.parts["computing"].steps == 2


def no_round(*_, **__):
    """No round is fixed."""


def profiled(session):
    """What the first call tells, and the fourth; and whether one after it is right."""
    model = session.share(copy.deepcopy(SMALL), owner=0)
    function = session.repeated(lambda x: model(x).detach())
    shared = session.share(PICTURES[0], owner=1)
    told = [function.profile(shared) for _ in range(4)]
    assert function.recordings[0].num_replays == 1
    found = session.reveal(function(shared))
    return told[0], told[-1], torch.allclose(found, WANTED[0], atol=1e-3)


def test_a_summary_tells_why_nothing_is_recorded(caplog):
    def main(session):
        function = session.repeated(lambda x: x.add_(1).clone())
        for _ in range(3):
            function(session.share(torch.ones(2), owner=0))
        return function.summary()

    assert all("not recorded: it writes to an argument" in one for one in tacit.run(main))


def test_under_the_same_masks_a_replay_gives_the_shares_of_a_call():
    def main(session):
        model = session.share(copy.deepcopy(SMALL), owner=0)
        x = session.share(PICTURES[0], owner=1)
        function = session.repeated(lambda x: model(x).detach())
        for _ in range(3):
            function(x)
        streams = session.protocol.context.streams
        number = streams.number
        replayed = function(x).value.share.parts
        after, streams.number = streams.number, number
        called = model(x).detach().value.share.parts
        assert streams.number == after
        return all(torch.equal(called[i], replayed[i]) for i in called)

    assert all(tacit.run(main))


def test_no_mask_is_drawn_twice():
    def main(session):
        model = session.share(copy.deepcopy(SMALL), owner=0)
        function = session.repeated(lambda x: model(x).detach())
        firsts = []
        for x in PICTURES:
            firsts.append(session.protocol.context.streams.number)
            function(session.share(x, owner=1))
        plan = plan_of(function)
        numbers = [x for step in plan.steps if isinstance(step, Draw) for x in step.args[1:2]]
        rounds = [step.exchange.operation for step in plan.steps if isinstance(step, Begin)]
        assert all(1 <= number <= plan.num_calls for number in numbers)
        assert len(rounds) == len(set(rounds)) > 0
        assert all(b - a > plan.num_calls for a, b in pairwise(firsts[3:]))
        places = [tuple(step.args[:4]) for step in plan.steps if isinstance(step, Draw)]
        return len(places) == len(set(places))

    assert all(tacit.run(main))


def test_words_that_every_replay_would_draw_again_are_not_recorded(monkeypatch, caplog):
    """A number that went through arithmetic is no longer known as that of the call."""
    fill = randomness.stream

    def forgetful(*args, operation, **options):
        return fill(*args, operation=int(operation), **options)

    def main(session):
        function = session.repeated(lambda x: (x * x).relu().detach())
        x = session.share(torch.tensor([1.0, -2.0]), owner=0)
        return [session.reveal(function(x)).tolist() for _ in range(6)]

    monkeypatch.setattr(randomness, "stream", forgetful)
    assert tacit.run(main) == [[[1.0, 4.0]] * 6] * 3
    assert "words that do not depend on the number of the call: it runs as it is" in caplog.text


def test_public_random_numbers_are_drawn_anew_and_as_in_a_call():
    def main(session):
        x = session.share(torch.ones(64), owner=0)
        scaled = session.repeated(lambda x: (x * torch.rand(64)).detach())
        torch.manual_seed(11)
        found = [session.reveal(scaled(x)) for _ in range(6)]
        torch.manual_seed(11)
        return torch.stack(found), torch.stack([torch.rand(64) for _ in range(6)])

    for found, wanted in tacit.run(main):
        torch.testing.assert_close(found, wanted, atol=1e-4, rtol=0)


def test_dropout_is_drawn_anew():
    def main(session):
        layer = nn.Dropout(0.5).train()
        x = session.share(torch.ones(64), owner=0)
        dropped = session.repeated(lambda x: layer(x).detach())
        found = torch.stack([session.reveal(dropped(x)) for _ in range(8)])
        assert len(plan_of(dropped).steps)
        return found

    first, *others = tacit.run(main)
    assert all(torch.equal(first, other) for other in others)
    assert len(first.unique(dim=0)) == 8
    assert set(first.flatten().tolist()) == {0.0, 2.0}


def test_a_mask_without_ones_in_the_recorded_call_decides_nothing():
    """Neither fraction bits nor the bits of comparisons follow from what was drawn once."""

    def main(session):
        x = session.share(torch.full((1,), 3.0), owner=0)
        function = session.repeated(lambda x: (F.dropout(x, 0.8) - 1).relu().detach())
        found = [float(session.reveal(function(x))) for _ in range(60)]
        assert len(plan_of(function).steps)
        return found

    for _ in range(2):  # the mask of a recorded call is 0 with a chance of 0.8
        found, *_ = tacit.run(main)
        ones = [y for y in found if y > 0]
        assert ones
        assert all(abs(y - 14) < 1e-3 for y in ones)

    def main_of_fractions(session):
        x = session.share(torch.full((1,), 3.0), owner=0)
        function = session.repeated(lambda x: F.dropout(x, 0.7).detach())
        found = [float(session.reveal(function(x))) for _ in range(40)]
        assert len(plan_of(function).steps)
        return found

    found, *_ = tacit.run(main_of_fractions)
    assert {round(y, 2) for y in found} == {0.0, 10.0}


NORMAL = {
    "public": lambda x: torch.randn(x.shape),
    "integers": lambda x: torch.randint(0, 1000, x.shape),
    "truth values": lambda x: torch.rand(x.shape) < 0.9,
}


@pytest.mark.parametrize("kind", NORMAL)
def test_random_numbers_without_a_bound_are_not_replayed(kind, caplog):
    def main(session):
        x = session.share(torch.ones(12), owner=0)
        function = session.repeated(lambda x: (x * NORMAL[kind](x)).detach())
        found = torch.stack([session.reveal(function(x)) for _ in range(6)])
        assert len(found.unique(dim=0)) > 1
        assert not recordings_of(function)

    with caplog.at_level(logging.WARNING):
        tacit.run(main)
    assert f"{UNBOUNDED}: it runs as it is" in caplog.text


@pytest.mark.parametrize(
    "kind",
    [torch.rand_like, lambda x: torch.randn_like(x).sigmoid(), lambda x: torch.rand(x.shape)],
)
def test_random_numbers_with_a_bound_are_replayed(kind):
    def main(session):
        x = session.share(torch.full((1,), 1000.0), owner=0)
        function = session.repeated(lambda x: (x * kind(x)).detach())
        found = [float(session.reveal(function(x))) for _ in range(12)]
        assert recordings_of(function)
        return found

    found, *others = tacit.run(main)
    assert all(found == other for other in others)
    assert all(0 <= y <= 1000 for y in found)
    assert len(set(found)) == 12


def test_what_is_known_of_drawn_numbers_ends_with_a_write():
    x = note(torch.rand(3), Drawn(1.0))
    assert drawn(x) == Drawn(1.0)
    x.mul_(100)
    assert drawn(x) is None
    mask = scaled_mask(torch.tensor([True, False]), 2.5, torch.float32)
    assert (drawn(mask), mask.tolist()) == (Drawn(2.5, is_mask=True), [2.5, 0.0])
    assert drawn(scaled(mask * 2, mask, 2)).is_whole


def test_a_forked_process_replays_nothing():
    """It would draw the masks that its parent draws, and hide other numbers by them."""

    def main(session):
        x = session.share(torch.ones(2), owner=0)
        function = session.repeated(lambda x: (x * x).detach())
        for _ in range(4):
            function(x)
        assert len(plan_of(function).steps)
        mesh = session.protocol.context.mesh
        mesh._process, own = -1, mesh._process
        number = session.protocol.context.streams.number
        with pytest.raises(ForkedUse, match="a forked process, "):
            function(x)
        assert session.protocol.context.streams.number == number
        mesh._process = own
        return session.reveal(function(x)).tolist()

    assert tacit.run(main) == [[1.0, 1.0]] * 3


def outputs_of_six_calls(session):
    x = session.share(torch.tensor([1.0, -2.0]), owner=0)
    function = session.repeated(lambda x: (x * x).relu().detach())
    return [session.reveal(function(x)).tolist() for _ in range(6)], function._kind


def test_if_one_party_cannot_record_none_does(monkeypatch):
    own_kind = repeated.own_kind
    monkeypatch.setattr(
        repeated, "own_kind", lambda session: own_kind(session) if session.rank != 1 else None
    )
    assert tacit.run(outputs_of_six_calls) == [([[1.0, 4.0]] * 6, None)] * 3


@pytest.mark.parametrize("protocol", ["additive", "trio"])
def test_in_a_stored_run_functions_run_as_they_are(protocol, tmp_path):
    settings = {"parties": 3, "protocol": protocol}
    tacit.preprocess(outputs_of_six_calls, folder=tmp_path, **settings)
    found = tacit.run(outputs_of_six_calls, preprocessed=tmp_path, **settings)
    assert found == [([[1.0, 4.0]] * 6, None)] * 3


def test_a_kernel_that_returns_a_result_is_not_recorded(monkeypatch, caplog):
    """A replay would go on with the result of the recorded call."""
    monkeypatch.setattr(plan_recorder, "BY_SHAPE", frozenset())

    def party(session):
        double = session.repeated(lambda x: (load_native().num_threads(), x * 2)[1])
        for _ in range(4):
            made = double(session.share(torch.ones(3), owner=0))
        return session.reveal(made)

    with caplog.at_level(logging.WARNING, "tacit"):
        assert torch.equal(tacit.run(party)[1], torch.full((3,), 2.0))
    assert "it calls a kernel that returns a result: it runs as it is" in caplog.text


def test_a_number_that_was_drawn_and_read_runs_as_it_is(caplog):
    def main(session):
        x = session.share(torch.ones(3), owner=0)
        scaled = session.repeated(lambda x: (x * float(torch.rand(()) + 1)).detach())
        torch.manual_seed(12)
        found = [float(session.reveal(scaled(x))[0]) for _ in range(6)]
        torch.manual_seed(12)
        return found, [float(torch.rand(()) + 1) for _ in range(6)]

    for found, wanted in tacit.run(main):
        assert found == pytest.approx(wanted, abs=1e-3)
    assert "it reads a number that may differ the next time: it runs as it is" in caplog.text


def test_what_was_not_recorded_is_noticed(monkeypatch, caplog):
    """A kernel that works outside of torch and the compiled code would do nothing in a replay."""

    def by_numpy(words, *args):
        planes = original(words, *args)
        found = torch.empty_like(planes)
        numpy.copyto(found.numpy(), planes.numpy())
        return found

    def main(session):
        x = session.share(torch.tensor([1.0, -1.0, 3.0]), owner=0)
        function = session.repeated(lambda x: (x == 1).float().detach())
        return [session.reveal(function(x)).tolist() for _ in range(5)]

    original = compare.bit_planes
    monkeypatch.setattr(compare, "bit_planes", by_numpy)
    with caplog.at_level(logging.WARNING, "tacit"):
        assert tacit.run(main) == [[[1.0, 0.0, 0.0]] * 5] * 3
    assert "it does something that was not recorded: it runs as it is" in caplog.text


def replaying(session):
    """A program of four parties whose last call is a replay."""
    model = session.share(copy.deepcopy(SMALL), owner=0)
    function = session.repeated(lambda x: model(x).detach())
    x = session.share(PICTURES[0], owner=1)
    for _ in range(3):
        function(x)
    yield session.reveal(function(x))


def test_a_message_of_a_replay_that_was_changed_is_noticed():
    sent = [one for one in messages_of(replaying, protocol="quad") if "replay" in str(one)]
    assert len(sent) > 40
    for one in sent[5 :: 4 if FULL else 20]:
        how = manipulations_of(one)[0]
        endings = run_corrupted(replaying, Corruption(one.party, (how,)), protocol="quad")
        honest = [ending for rank, ending in enumerate(endings) if rank != one.party]
        assert all(ending.error is CheatingDetected and not ending.opened for ending in honest)


def test_arguments_of_several_shapes_have_a_plan_each():
    def main(session):
        model = session.share(copy.deepcopy(SMALL), owner=0)
        function = session.repeated(lambda x: model(x).detach())
        found = []
        for _ in range(4):
            for size in (2, 1):
                x = session.share(PICTURES[0, :size], owner=1)
                found.append(session.reveal(function(x)))
        plans = [made.plan for one in function._specializations for made in one.recordings]
        return torch.cat(found), len({len(plan.steps) > 0 for plan in plans}), len(plans)

    wanted = torch.cat([WANTED[0], WANTED[0, :1]] * 4)
    for found, recorded, plans in tacit.run(main):
        torch.testing.assert_close(found, wanted, atol=0.02, rtol=0)
        assert (recorded, plans) == (1, 2)


def test_of_too_many_shapes_the_oldest_is_dropped_and_that_is_said_once(monkeypatch, caplog):
    monkeypatch.setattr(repeated, "MOST_RECORDINGS", 2)

    def main(session):
        double = session.repeated(lambda x: (2 * x).detach())
        found = []
        for size in (1, 1, 1, 2, 3, 4, 1):
            found.append(session.reveal(double(session.share(torch.ones(size), owner=0))).tolist())
        return found, len(double._specializations)

    wanted = [[2.0] * size for size in (1, 1, 1, 2, 3, 4, 1)]
    assert tacit.run(main) == [(wanted, 2)] * 3
    assert caplog.text.count("more than 2 forms: the recording of the oldest is dropped") == 1


# Small work ---------------------------------------------------------------------------------------

aten = torch.ops.aten
EDGES = [0, 1, -1, 2, -(2**31), 2**31 - 1, 2**63 - 1, -(2**63)]


def words(shape, dtype):
    """Random integers with edge values, of any strides."""
    made = torch.randint(-(2**63), 2**63 - 1, shape)
    edges = torch.tensor(EDGES)[torch.randint(len(EDGES), shape)]
    return torch.where(torch.rand(shape) < 0.3, edges, made).to(dtype)


@draws(100)
@seed(2)
@given(st.data())
def test_small_work_is_that_of_torch(data):
    dtype = data.draw(st.sampled_from([torch.int32, torch.int64]))
    shape = tuple(data.draw(st.lists(st.integers(0, 5), min_size=1, max_size=3)))
    x, y = words(shape, dtype), words(shape, dtype)
    if len(shape) > 1:
        x, y = x.transpose(0, 1), y.transpose(0, 1)
    scalar = data.draw(st.sampled_from([0, 1, -3, 2**31 - 1]))
    calls = [
        (aten.add.Tensor, (x, y)),
        (aten.add.Tensor, (x, scalar)),
        (aten.sub.Tensor, (x, y)),
        (aten.mul.Tensor, (x, y)),
        (aten.mul.Tensor, (x, y[:1])),
        (aten.bitwise_xor.Tensor, (x, y)),
        (aten.__xor__.Tensor, (x, y)),
        (aten.bitwise_and.Tensor, (x, y)),
        (aten.bitwise_or.Tensor, (x, y)),
        (aten.neg.default, (x,)),
        (aten.bitwise_not.default, (x,)),
        (aten.__rshift__.Scalar, (x, 7)),
        (aten.__lshift__.Scalar, (x, 31)),
        (aten.clone.default, (x,)),
        (aten.cat.default, ([x, y],)),
        (aten.cat.default, ([x, y], -1)),
        (aten.sum.dim_IntList, (x, [0])),
        (aten.sum.dim_IntList, (x, [-1], True)),
        (aten.sum.dim_IntList, (torch.stack([x, y]), [0])),
        (aten.sum.dim_IntList, (torch.stack([x, y], -1), [-1], True)),
    ]
    func, args = data.draw(st.sampled_from(calls))
    if func is aten.sum.dim_IntList and dtype is torch.int32:
        return  # torch's result is of another type
    want = func(*args)
    place = torch.full_like(want, 5)
    function, given_args = small_work(func, args, {}, place)
    function(*given_args)
    assert torch.equal(place, want)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_sums_of_pairs_are_those_of_torch(dtype):
    """As in pooling, with the type of the result in words."""
    x, given = words((3, 2, 4, 2), dtype), {"dtype": dtype}
    for args in [(x, [1]), (x, [3]), (x, [-3], True), (x.transpose(0, 3), [0], True)]:
        place = torch.full_like(want := aten.sum.dim_IntList(*args, **given), 5)
        function, given_args = small_work(aten.sum.dim_IntList, args, given, place)
        function(*given_args)
        assert torch.equal(place, want)
    assert small_work(aten.sum.dim_IntList, (x, [0]), given, x.sum(0, dtype=dtype)) is None
    assert small_work(aten.sum.dim_IntList, (x, [1, 3]), given, x.sum((1, 3), dtype=dtype)) is None


def test_other_work_is_left_to_torch():
    x, long = torch.ones(3, dtype=torch.int64), torch.ones(1 << 16, dtype=torch.int64)
    for func, args in [
        (aten.add.Tensor, (x, x.int())),
        (aten.add.Tensor, (x.double(), x.double())),
        (aten.add.Tensor, (x, 0.5)),
        (aten.add.Tensor, (long, long)),
        (aten.sum.dim_IntList, (x.int(), [0])),
    ]:
        assert small_work(func, args, {}, func(*args)) is None
    assert small_work(aten.add.Tensor, (x, x), {"alpha": 2}, x) is None


# Memory -------------------------------------------------------------------------------------------


@draws(60)
@seed(1)
@given(st.data())
def test_an_arena_never_gives_the_same_memory_to_two_tensors(data):
    arena, held = Arena(), []
    for value in range(40):
        if held and data.draw(st.booleans()):
            held.pop(data.draw(st.integers(0, len(held) - 1)))
        shape = data.draw(st.lists(st.integers(0, 70), max_size=3))
        like = torch.empty(shape, dtype=data.draw(st.sampled_from([torch.int64, torch.uint8])))
        if like.dim() > 1 and data.draw(st.booleans()):
            like = like.transpose(0, 1)
        made = arena.empty_like(like).fill_(value)
        assert made.shape == like.shape
        alias = arena.alias(made)
        assert alias.data_ptr() == made.data_ptr() or not made.numel()
        held.append((made, alias, value))
    for made, alias, value in held:
        assert (made == value).all()
        assert (alias == value).all()


def test_a_tensor_holds_the_memory_of_its_arena():
    arena = Arena()
    kept, known = arena.empty_like(torch.empty(5)).fill_(7.0), ref(arena)
    del arena
    gc.collect()
    assert known() is not None
    assert kept.tolist() == [7.0] * 5
    del kept
    gc.collect()
    assert known() is None


def test_memory_is_used_again():
    arena = Arena()
    for _ in range(100):
        arena.empty_like(torch.empty(1 << 18, dtype=torch.int64))  # 2 MiB
    assert arena.num_bytes < 1 << 26
