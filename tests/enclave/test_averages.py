"""Averaged weights, momentum, weight decay and schedules compute on secrets what torch computes."""

from __future__ import annotations

import pytest
from tests.enclave.averages import SCHEDULES, compared
from tests.tiers import FULL

import tacit

CASES = [("step", "momentum"), ("cosine", "nesterov"), ("one cycle", "nesterov")]
ALONE = {"protocol": "enclave", "parties": 2, "outsourcing": "none"}
WORKERS = {"protocol": "enclave", "parties": 2, "outsourcing": "three-server"}


def largest(settings, *case):
    """The largest difference from plain torch: of the weights, and of the averaged ones."""
    [differences, *_] = tacit.run(compared, *case, deadline=120.0, **settings)
    assert {name.rpartition(".")[2] for name in differences[1]} == {
        *("weight", "bias", "running_mean", "running_var")
    }
    return [max(one.values()) for one in differences]


@pytest.mark.parametrize("case", CASES if FULL else CASES[:2], ids=str)
def test_an_enclave_alone_computes_as_torch(case):
    assert max(largest(ALONE, *case)) < 1e-6


def test_workers_with_22_bits():
    assert max(largest({**WORKERS, "precision": "fixed"}, *CASES[0])) < 3e-6


def test_workers_with_8_bits():
    trained, averaged = largest({**WORKERS, "precision": "swalp"}, *CASES[0])
    assert 1e-4 < trained < 0.02
    assert averaged < 0.03


@pytest.mark.parametrize("case", CASES if FULL else CASES[1:2], ids=str)
def test_three_parties(case):
    assert max(largest({"protocol": "trio"}, *case)) < 1e-3


def test_every_schedule_is_tried():
    assert {schedule for schedule, _ in CASES} == SCHEDULES.keys()
