"""torch's operator database on secrets: right, or refused; never wrong, never a crash.

`tests/tensor/operators.json` records what each operator did on all of its samples;
`python -m tests.tensor.conformance` writes it. Here a spread of the samples is run again.
"""

import json

import pytest
from tests.tensor.conformance import (
    CRASHED,
    REFUSED,
    RIGHT,
    TABLE,
    WRONG,
    check_forward,
    check_gradient,
    check_samples,
    database,
    samples_of,
    size_of,
)
from tests.tensor.operators import CHOSEN, REFUSING

import tacit

DATABASE = database()
RECORD = json.loads(TABLE.read_text())
WITH_GRADIENTS = [name for name in CHOSEN if RECORD[name]["gradients"] == RIGHT]


def outcome(check, name, most):
    def main(session):
        return check(session, name, DATABASE[name], most)

    return tacit.run(main, parties=1, protocol="cleartext")[0]


@pytest.mark.parametrize("name", CHOSEN)
def test_results(name):
    found = outcome(check_forward, name, most=8)
    assert found.samples
    assert found.verdict in (RIGHT, RECORD[name]["results"]), "\n".join(found.notes)


@pytest.mark.parametrize("name", WITH_GRADIENTS)
def test_gradients(name):
    found = outcome(check_gradient, name, most=2)
    assert found.verdict == RIGHT, "\n".join(found.notes)


@pytest.mark.parametrize("name", REFUSING)
def test_refused(name):
    found = outcome(check_forward, name, most=2)
    assert found.verdict == REFUSED, "\n".join(found.notes)


THREE = [("trio", "exact", 0), ("replicated", "exact", 3), ("trio", "probabilistic", 6)]


@pytest.mark.parametrize(("protocol", "truncation", "first"), THREE)
def test_three_parties(protocol, truncation, first):
    names = [*CHOSEN[first::9], "softmax"]
    drawn = {name: samples_of(DATABASE[name], 2) for name in names}  # parties share torch's state

    def main(session):
        small = {name: [x for x in drawn[name] if size_of(x) < 1000] for name in names}
        return [check_samples(session, name, DATABASE[name], small[name]) for name in names]

    options = {"protocol": protocol, "truncation": truncation, "deadline": 120.0}
    for found in tacit.run(main, **options)[0]:
        assert found.verdict in (RIGHT, RECORD[found.name]["results"]), "\n".join(found.notes)


def test_record_is_of_the_chosen_operators():
    assert list(RECORD) == [*CHOSEN, *REFUSING], "run python -m tests.tensor.conformance"


def test_enough_operators_are_right():
    verdicts = [RECORD[name]["results"] for name in CHOSEN]
    assert len(verdicts) >= 280
    assert verdicts.count(RIGHT) >= 0.95 * len(verdicts)
    assert not {WRONG, CRASHED} & {row["results"] for row in RECORD.values()}


def test_enough_gradients_are_right():
    verdicts = [RECORD[name]["gradients"] for name in CHOSEN]
    assert verdicts.count(RIGHT) >= 120
    assert not {WRONG, CRASHED} & set(verdicts)
