"""Rounds that are merged: which ones, in which order of the steps, and on which memory."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, seed
from hypothesis import strategies as st
from tests.tiers import draws

from tacit.errors import ProtocolError
from tacit.kernels.backend import load_native
from tacit.protocols.steps import Round
from tacit.runtime.replay import merged_rounds, plan_merging
from tacit.runtime.replay.arena import Arena
from tacit.runtime.replay.memory_use import MemoryUse
from tacit.runtime.replay.merged_rounds import RecordedRound, merged, told_by, united
from tacit.runtime.replay.plan import Admission, Begin, Draw, Exchange, Messages, Number, Plan, Work
from tacit.runtime.replay.plan_merging import merge_rounds


def rounds_of(*needs, ahead=()):
    """Rounds 0, 1, 2, ... that need these."""
    return [RecordedRound(i, i in ahead, 1, frozenset(one)) for i, one in enumerate(needs)]


def test_rounds_that_do_not_depend_on_each_other_are_one():
    assert merged(rounds_of((), (), (), (0, 1), (2,))) == [(0, 1, 2), (3, 4)]


def test_what_is_sent_ahead_goes_with_what_is_needed_at_the_same_level():
    rounds = rounds_of((), (), (0,), (), (2, 3), (), ahead=(0, 1, 3, 5))
    # 0 is needed by 2, 3 by 4, the others by none
    assert merged(rounds) == [(0,), (2,), (3,), (4,), (1, 5)]


def test_a_message_that_is_sent_ahead_may_depend_on_another_one():
    assert merged(rounds_of((), (0,), (1,), ahead=(0, 1))) == [(0,), (1,), (2,)]


def test_in_windows_only_neighbours_are_merged():
    rounds = rounds_of((), (0,), (), (2,))
    assert merged(rounds) == [(0, 2), (1, 3)]
    assert merged(rounds, 2) == [(0,), (1,), (2,), (3,)]


def test_a_message_has_not_too_many_tensors(monkeypatch):
    monkeypatch.setattr(merged_rounds, "MOST_TENSORS", 3)
    rounds = [RecordedRound(i, False, tensors, frozenset()) for i, tensors in enumerate((2, 1, 5))]
    assert merged(rounds) == [(0, 1), (2,)]


def test_what_a_round_needs_at_any_party_counts():
    one = [RecordedRound(1, False, 2, frozenset()), RecordedRound(2, False, 1, frozenset((1,)))]
    other = [RecordedRound(2, False, 3, frozenset()), RecordedRound(3, False, 1, frozenset((2,)))]
    told = [told_by(i, "\n".join(x.encode() for x in of)) for i, of in enumerate((one, other))]
    assert merged(united(told)) == [(1,), (2,), (3,)]
    assert [each.num_tensors for each in united(told)] == [2, 3, 1]


@pytest.mark.parametrize(
    "text",
    ["x", "1 0", "1 0 1 2", "1 0 1 1", "1 0 1\n1 0 1", "2 0 1 1", "1 0 1\n", "1 0 1\n\n2 0 1"],
)
def test_a_party_that_tells_of_no_rounds_is_named(text):
    with pytest.raises(ProtocolError, match="party 2") as caught:
        told_by(2, text)
    assert caught.value.party == 2


def test_a_party_without_rounds_tells_of_none():
    assert told_by(1, "") == []


@draws(200)
@seed(3)
@given(st.data())
def test_every_round_comes_once_and_after_what_it_needs(data):
    count = data.draw(st.integers(1, 25))
    needs = [
        data.draw(st.sets(st.integers(0, i - 1), max_size=3)) if i else set() for i in range(count)
    ]
    rounds = rounds_of(*needs, ahead=data.draw(st.sets(st.integers(0, count - 1))))
    for num_windows in (1, 3, count):
        groups = merged(rounds, num_windows)
        place = {one: i for i, group in enumerate(groups) for one in group}
        assert sorted(place) == list(range(count))
        assert all(place[other] < place[one] for one in range(count) for other in needs[one])
        assert all(len({rounds[one].ahead for one in group}) == 1 for group in groups)
        assert all(list(group) == sorted(group) for group in groups)


# The order of steps, and their memory -------------------------------------------------------------


def test_memory_that_is_released_while_a_plan_is_moved_stays():
    """The garbage collector decides when memory in a cycle of references is released."""
    arena = Arena()
    x = arena.empty_like(torch.empty(8))
    address = x.data_ptr()
    fixed = arena.used_blocks()
    del x
    assert arena.take(32) != address
    arena.empty_like(torch.empty(8))
    assert not fixed & arena.used_blocks()
    assert arena.take(32) == address


class Program:
    """A random program on an arena, which runs while it is recorded, and the results it keeps."""

    def __init__(self, data) -> None:
        self.plan, self.arena, self.messages = Plan(), Arena(), []
        self.guarded = []
        self.memory = MemoryUse(self.arena)
        self.state = torch.zeros(8, dtype=torch.int64)
        self.memory.own(self.state)
        self._pick = lambda most: data.draw(st.integers(0, most))
        self._generator = torch.Generator().manual_seed(self._pick(1 << 30))
        self.held = [self._new() for _ in range(3)]
        for tensor in self.held:
            self._add(Work(np.copyto, (self._array(tensor), self._words().numpy()), {}), [tensor])
        self.admitted = []
        for operation in range(1, 1 + data.draw(st.integers(1, 40))):
            self._do(self._pick(9), operation)

    def _words(self):
        return torch.randint(-(2**63), 2**63 - 1, (8,), generator=self._generator)

    def _new(self):
        return self.arena.empty_like(torch.empty(8, dtype=torch.int64))

    def _array(self, tensor):
        return self.arena.alias(tensor).numpy()

    def _add(self, step, written, **how):
        step(0) if not isinstance(step, Exchange) else None
        self.plan.steps.append(step)
        self.memory.note(step, written, **how)

    def _do(self, what, operation):
        a, b = (self.held[self._pick(len(self.held) - 1)] for _ in range(2))
        if what == 0 and len(self.held) > 3:
            self.held.pop(self._pick(len(self.held) - 1))  # its memory is used again
        elif what == 1:
            self._add(Work(np.add, (self._array(a), self._array(b), self._array(a)), {}), [a])
        elif what == 2:
            half, other = self._array(a)[::2], self._array(b)[1::2]
            self._add(Work(np.bitwise_xor, (half, other, half), {}), [a])
        elif what == 3:
            self._add(Work(torch.Tensor.add_, (self.state, self.arena.alias(a)), {}), [self.state])
        elif what == 4:
            self._add(Work(torch.sub, (self.state, self.arena.alias(a)), {"out": a}), [a])
        elif what == 5:
            self.held.append(made := self._new())
            addresses = a.data_ptr(), made.data_ptr()
            step = Work(load_native().popcount, (*addresses, 8), {})
            self._add(step, addresses[1:], is_kernel=True)
        elif what == 6:
            self.held.append(made := self._new())
            args = bytes(16), Number(operation), 0, 0, made.data_ptr(), 64
            step = Draw(load_native().stream_aes128_ctr, args)
            self._add(step, [made.data_ptr()], is_kernel=True)
        else:
            self._exchange(a, b, operation, ahead=what == 9)

    def _exchange(self, a, b, operation, *, ahead):
        got = [self._words() for _ in range(self._pick(2))]
        made = [self._new().copy_(x) for x in got]
        self.messages.append(Messages({1: [a.clone()], 2: [b.clone()]}, {1: got}))
        sent = {1: [self.arena.alias(a)], 2: [self.arena.alias(b)]}
        places = {1: [self.arena.alias(x) for x in made]}
        number = operation << 16
        admission = Admission(self.admitted.append, operation) if self._pick(1) else None
        if admission is not None:
            self._add(admission, [])
        self._add(Exchange(None, Round(ahead=ahead), sent, places, number), made)
        self.held += made


def alone(text):
    """What a party without others gathers."""
    return [text]


@draws(150)
@seed(4)
@given(st.data())
def test_steps_in_another_order_on_other_memory_do_the_same(data):
    program = Program(data)
    wanted, state = [x.clone() for x in program.held], program.state.clone()
    recorded = len(program.messages)
    merge_rounds(program, alone)
    program.arena.spoil()
    program.state.zero_()
    assert program.plan.sends_again(program.messages, 0)
    assert all(map(torch.equal, wanted, program.held))
    assert torch.equal(program.state, state)
    begun = [step for step in program.plan.steps if isinstance(step, Begin)]
    assert len(begun) == len(program.messages) <= recorded
    assert admissions_come_first(program.plan)


def admissions_come_first(plan):
    """Whether each reveal is admitted before the rounds of its call, in the recorded order."""
    admitted, calls = [], []
    for step in plan.steps:
        if isinstance(step, Admission):
            admitted.append(step.number)
            if step.number in calls:
                return False
        if isinstance(step, Begin):
            calls.append(step.exchange.operation >> 16)
    return admitted == sorted(admitted)


def test_a_write_that_is_not_declared_is_noticed():
    arena = Arena()
    memory, plan = MemoryUse(arena), Plan()
    x = arena.empty_like(torch.empty(8, dtype=torch.int64)).fill_(7)
    alias = arena.alias(x)
    steps = [
        Work(torch.Tensor.fill_, (alias, 7), {}),
        Exchange(None, Round(), {1: [alias]}, {}, 1 << 16),
        Work(torch.Tensor.fill_, (alias, 8), {}),  # not declared
        Exchange(None, Round(), {1: [alias]}, {}, 2 << 16),
    ]
    for step, written in zip(steps, ([x], [], [], []), strict=True):
        plan.steps.append(step)
        memory.note(step, written)
    messages = [Messages({1: [torch.full((8,), value)]}, {}) for value in (7, 8)]
    program = SimpleNamespace(plan=plan, arena=arena, memory=memory, messages=messages, guarded=[])
    merge_rounds(program, alone)
    assert not plan.sends_again(program.messages, 0)


def test_memory_that_would_grow_too_much_is_not_taken(monkeypatch):
    """Of two independent sums of many rounds, both need memory at the same time if merged."""
    monkeypatch.setattr(plan_merging, "SMALL_BYTES", 0)

    def merged_of(told):
        arena = Arena()
        memory, plan, messages = MemoryUse(arena), Plan(), []
        for operation in range(1, 9):
            x = arena.empty_like(torch.empty(1 << 16, dtype=torch.int64))
            for step, written in [
                (Work(torch.Tensor.fill_, (arena.alias(x), operation), {}), [x]),
                (Exchange(None, Round(), {1: [arena.alias(x)]}, {}, operation << 16), []),
            ]:
                plan.steps.append(step)
                memory.note(step, written)
            messages.append(Messages({1: [torch.full((1 << 16,), operation)]}, {}))
            del x
        program = SimpleNamespace(
            plan=plan, arena=arena, memory=memory, messages=messages, guarded=[]
        )
        merge_rounds(program, told)
        assert plan.sends_again(program.messages, 0)
        return len(program.messages)

    assert merged_of(alone) == 8
    monkeypatch.setattr(plan_merging, "GROWTH", 2)
    assert merged_of(alone) == 4
    monkeypatch.setattr(plan_merging, "GROWTH", 8)
    assert merged_of(alone) == 1
    # Another party has not the memory, or does not know what it writes:
    assert merged_of(lambda text: [text, "too large" if text == "fits" else ""]) == 8
    assert merged_of(lambda text: [text, "unknown"]) == 8
