"""What is declared of the memory that kernels write: seen while networks run."""

from __future__ import annotations

import copy
from collections import Counter
from pathlib import Path

import pytest
import torch
from torch import nn

import tacit
from tacit.kernels import backend, written_arguments
from tacit.kernels.backend import load_native
from tacit.kernels.written_arguments import WRITTEN, written_addresses
from tacit.runtime.replay import plan_recorder
from tacit.runtime.replay.plan_recorder import BY_SHAPE, PlanRecorder

NEVER_RECORDED = {"digest"}
SETTINGS = {"keep_scratch", "num_threads", "set_num_threads", "use_amx"}


def test_every_kernel_is_declared():
    native = load_native()
    found = {
        name
        for name in dir(native)
        if callable(getattr(native, name)) and not isinstance(getattr(native, name), type)
    }
    assert found - WRITTEN.keys() - BY_SHAPE - SETTINGS == NEVER_RECORDED


def test_kernels_get_addresses_that_a_recording_knows():
    """`address` tells it of them. A digest is never recorded; a GPU's alignment is no address."""
    files = Path(backend.__file__).parent.glob("*.py")
    found = {file.name: file.read_text().count(".data_ptr()") for file in files}
    assert {name: n for name, n in found.items() if n} == {
        "backend.py": 1,
        "digest.py": 2,
        "stream.py": 1,
    }


def test_lists_count_as_many_arguments_and_what_is_encoded_is_not_written():
    assert written_addresses("deal_injection64", ([1, 2, 3, 4], 9)) == [2, 3]
    product = (1, (0, 1), 2, (0, 1), 3, 1, (4, 4, 4), 0, 5)
    assert written_addresses("matmul32", (*product, False)) == [3, 5]
    assert written_addresses("matmul32", (*product, True)) == [3]
    assert written_addresses("another", ()) is None


class Watch:
    """Compares the blocks that kernels are given before and after each call of a recording."""

    def __init__(self, monkeypatch) -> None:
        self.faults: set[str] = set()
        self.changed: Counter[str] = Counter()
        original = PlanRecorder.add_kernel

        def add_kernel(recorder, function, *args):
            before = self._contents(recorder, args)
            result = original(recorder, function, *args)
            self._compare(recorder, function.__name__, args, before)
            return result

        monkeypatch.setattr(PlanRecorder, "add_kernel", add_kernel)

    @staticmethod
    def _contents(recorder, args):
        flat = written_arguments._flattened(args)
        blocks = {recorder.arena.block(x) for x in flat if type(x) is int} - {None}
        like = torch.empty(0, dtype=torch.uint8)
        found = {}
        for block in blocks:
            view = recorder.arena.tensor_at(block.start, like.new_empty(block.size))
            found[block.number] = (view, view.clone())
        return found

    def _compare(self, recorder, name, args, before):
        written = written_addresses(name, args)
        declared = {block.number for x in written if (block := recorder.arena.block(x))}
        for number, (view, old) in before.items():
            if torch.equal(view, old):
                continue
            self.changed[name] += 1
            if number not in declared:
                self.faults.add(name)


def train(session):
    torch.manual_seed(1)
    net = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64, 8)
    )
    model = session.share(copy.deepcopy(net), owner=0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = session.share(torch.randn(8, 1, 8, 8), owner=1)

    def step(x):
        loss = (model(x) ** 2).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    step = session.repeated(step)
    for _ in range(3):
        step(x)
    return len(step.recordings)


CASES = [
    {"protocol": "trio"},
    {"protocol": "trio", "ring": 32, "fraction_bits": 12},
    {"protocol": "replicated"},
    pytest.param({"protocol": "beaver"}, marks=pytest.mark.full("trio runs")),
    pytest.param({"protocol": "quad", "parties": 4}, marks=pytest.mark.full("trio runs")),
]


@pytest.mark.parametrize("settings", CASES, ids=str)
def test_kernels_write_what_is_declared_and_nothing_else(settings, monkeypatch):
    watch = Watch(monkeypatch)
    assert all(tacit.run(train, **settings))
    assert not watch.faults
    assert len(watch.changed) > 5


def test_a_wrong_declaration_is_noticed(monkeypatch):
    monkeypatch.setitem(WRITTEN, "bit_planes", written_arguments.Written(()))
    assert plan_recorder.written_addresses("bit_planes", range(6)) == []
    watch = Watch(monkeypatch)

    def main(session):
        positive = session.repeated(lambda x: (x > 0).float())
        for _ in range(3):
            positive(session.share(torch.ones(3), owner=0))

    tacit.run(main)
    assert watch.faults == {"bit_planes"}
