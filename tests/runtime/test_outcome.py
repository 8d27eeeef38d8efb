"""Which of several failures was the first cause, and what the caller is told."""

from __future__ import annotations

import pytest

from tacit.errors import (
    CheckpointRejected,
    ConnectTimeout,
    DataRejected,
    PartyFailed,
    PeerClosed,
    PeerTimeout,
    PreprocessingRejected,
)
from tacit.runtime.launch.outcome import Failure, Success, attempt, collect, root_cause


def failed(
    party: int, time: float, blames: int | None = None, *, is_silent: bool = False
) -> Failure:
    return Failure(PartyFailed("why", party=party), time, blames, is_silent=is_silent)


@pytest.mark.parametrize(
    ("failures", "root"),
    [
        ([failed(1, 1.0)], 1),
        ([failed(2, 2.0), failed(1, 1.0)], 1),  # the earlier one
        ([failed(0, 1.0, blames=2), failed(2, 2.0)], 2),  # an echo that arrived first
        ([failed(0, 1.0, blames=1), failed(1, 2.0, blames=2), failed(2, 3.0)], 2),  # of an echo
        ([failed(0, 1.0, blames=2), failed(1, 2.0, blames=2)], 0),  # party 2 had just finished
        ([failed(0, 1.0, blames=1), failed(1, 2.0, blames=0)], 0),  # each blames the other
        ([failed(0, 1.0, blames=1), failed(1, 2.0, blames=1)], 1),  # one blames itself
        ([failed(1, 1.0, blames=1), failed(0, 2.0)], 0),  # ... because another says so
        ([failed(2, 1.0, is_silent=True), failed(1, 2.0, blames=2)], 1),  # who blames says more
        ([failed(2, 1.0, is_silent=True)], 2),
    ],
)
def test_the_root_cause(failures, root):
    assert root_cause(failures).party == root


@pytest.mark.parametrize(
    ("error", "blames"),
    [
        (PeerClosed("gone", party=2), 2),
        (ConnectTimeout("never came", party=2), 2),
        (PeerTimeout("silent", party=2), None),
        (DataRejected("empty", party=2), 2),  # which knows the path
        (CheckpointRejected("damaged", party=2), 2),
        (PreprocessingRejected("used", party=2), 2),
        (DataRejected("empty", party=1), None),  # its own file
        (ValueError("own fault"), None),
    ],
)
def test_what_a_failure_blames(error, blames):
    def action():
        raise error

    failure = attempt(1, action)
    assert isinstance(failure, Failure)
    assert (failure.party, failure.blames, failure.raised) == (1, blames, error)
    assert failure.error.kind == type(error).__name__
    assert failure.error.headline.startswith(f"party 1 failed: {type(error).__name__}: {error} (at")
    assert "in action" in failure.error.trace
    assert failure.error.frames[-1].function == "action"


def collected(*outcomes):
    pending = list(outcomes)
    timeouts = []

    def receive(timeout):
        timeouts.append(timeout)
        return pending.pop(0) if pending else None

    try:
        return collect(receive, 3, patience=5.0, names=(), deadline=50.0), timeouts
    except PartyFailed as error:
        return error, timeouts


def test_values_come_by_rank_whatever_the_order():
    values, timeouts = collected(Success(2, "c"), Success(0, "a"), Success(1, "b"))
    assert values == ["a", "b", "c"]
    assert all(45 < timeout <= 50 for timeout in timeouts)


def test_after_a_failure_the_others_have_less_time():
    error, timeouts = collected(failed(1, 1.0), failed(0, 2.0, blames=1), Success(2, "c"))
    assert (error.party, error.__notes__) == (1, ["then party 0 failed in the same way"])
    assert [timeout > 5 for timeout in timeouts] == [True, False, False]


def test_who_does_not_answer_is_named():
    error, _ = collected(Success(0, "a"), Success(2, "c"))
    assert str(error) == "party 1 failed: no answer in time; it was still running"
