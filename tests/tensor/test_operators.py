"""torch's operator database on secrets: right, or refused; never wrong, never a crash.

`tests/tensor/operators.json` records what each operator does on all of its samples;
`python -m tests.tensor.conformance` writes it. Here a spread of the samples is run again: all
operators of a test in one session, and each operator is a test case of its own.
"""

from __future__ import annotations

import json

import pytest
from tests.tensor.conformance import (
    CRASHED,
    REFUSED,
    RIGHT,
    TABLE,
    WRONG,
    check_all,
    check_forward,
    check_gradient,
    check_samples,
    database,
    samples_of,
    size_of,
    torch_warnings_ignored,
)
from tests.tensor.operators import CHOSEN, REFUSING
from tests.tiers import FULL

import tacit

RECORD = json.loads(TABLE.read_text())
WITH_GRADIENTS = [name for name in CHOSEN if RECORD[name]["gradients"] == RIGHT]
RESULT_SAMPLES = 4 if FULL else 2
GRADIENT_SAMPLES = 2 if FULL else 1


def selected(request, test):
    """The operators for which pytest runs this test."""
    items = [item for item in request.session.items if item.path == request.path]
    return [item.callspec.params["name"] for item in items if item.originalname == test]


@pytest.fixture(scope="module")
def results(request):
    return check_all(check_forward, selected(request, "test_results"), RESULT_SAMPLES)


@pytest.fixture(scope="module")
def gradients(request):
    return check_all(check_gradient, selected(request, "test_gradients"), GRADIENT_SAMPLES)


@pytest.fixture(scope="module")
def refusals(request):
    return check_all(check_forward, selected(request, "test_refused"), 2)


@pytest.mark.parametrize("name", CHOSEN)
def test_results(name, results):
    found = results[name]
    assert found.samples
    assert found.verdict in (RIGHT, RECORD[name]["results"]), "\n".join(found.notes)


@pytest.mark.parametrize("name", WITH_GRADIENTS)
def test_gradients(name, gradients):
    found = gradients[name]
    assert found.verdict == RIGHT, "\n".join(found.notes)


@pytest.mark.parametrize("name", REFUSING)
def test_refused(name, refusals):
    found = refusals[name]
    assert found.verdict == REFUSED, "\n".join(found.notes)


def test_a_broken_check_is_reported_for_its_operator_alone():
    def check(session, name, op, most):
        if name == "abs":
            raise RuntimeError("no such sample")
        return check_forward(session, name, op, most)

    found = check_all(check, ["abs", "neg"], 1)
    assert (found["abs"].verdict, found["neg"].verdict) == (CRASHED, RIGHT)
    assert "no such sample" in found["abs"].notes[0]


# Settings, the first of the operators, and of how many of them one is run in the full tier.
ALL_PARTIES = [
    ({"protocol": "trio"}, 0, 18),
    ({"protocol": "additive", "parties": 2}, 1, 9),
    pytest.param({"protocol": "additive"}, 4, 18, marks=pytest.mark.full("two parties run")),
    pytest.param({"protocol": "replicated"}, 3, 18, marks=pytest.mark.full("trio runs")),
    pytest.param({"truncation": "probabilistic"}, 6, 18, marks=pytest.mark.full("exact runs")),
]


@pytest.mark.parametrize(("settings", "first", "step"), ALL_PARTIES)
def test_all_parties(settings, first, step):
    names = [*CHOSEN[first :: step if FULL else 27], "softmax"]
    with torch_warnings_ignored():  # here, and not by the parties, which share torch's state
        drawn = {name: samples_of(database()[name], 2) for name in names}

    def main(session):
        small = {name: [x for x in drawn[name] if size_of(x) < 1000] for name in names}
        return [check_samples(session, name, database()[name], small[name]) for name in names]

    with torch_warnings_ignored():
        outcomes = tacit.run(main, **settings, deadline=120.0)[0]
    for found in outcomes:
        assert found.verdict in (RIGHT, RECORD[found.name]["results"]), "\n".join(found.notes)


def test_record_is_of_the_chosen_operators():
    assert list(RECORD) == [*CHOSEN, *REFUSING], "run python -m tests.tensor.conformance"


def test_enough_operators_are_right():
    verdicts = [RECORD[name]["results"] for name in CHOSEN]
    assert len(verdicts) >= 451
    assert verdicts.count(RIGHT) >= 439
    assert not {WRONG, CRASHED} & {row["results"] for row in RECORD.values()}


def test_enough_gradients_are_right():
    verdicts = [RECORD[name]["gradients"] for name in CHOSEN]
    assert verdicts.count(RIGHT) >= 394
    assert not {WRONG, CRASHED} & set(verdicts)
