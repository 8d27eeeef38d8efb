"""How far a loop is, and how long the rest takes, by a clock that the test drives."""

from __future__ import annotations

import re

import pytest
import torch

import tacit
from tacit import stats
from tacit.cli.report import state
from tacit.runtime.joining import matching
from tacit.runtime.progress import MapProgress, Progress, RunningLoops, duration
from tacit.runtime.rehearsal.rehearse import Rehearsing
from tacit.testing.clock import ManualClock


def test_the_time_left_forgets_slow_first_items():
    clock = ManualClock()
    progress = Progress("steps", 12, now=clock.now)
    assert progress.text == "steps: 0 of 12"
    texts = []
    for seconds in (40.0, 2.0, 2.0, 2.0):  # the first one is compiled
        clock.advance(seconds)
        progress.add()
        texts.append(progress.text)
    assert texts == [
        "7 min left, steps: 1 of 12",
        "20 s left, steps: 2 of 12",
        "18 s left, steps: 3 of 12",
        "16 s left, steps: 4 of 12",
    ]
    clock.advance(5.0)
    assert progress.seconds_left == 11.0  # it counts down between items
    clock.advance(60.0)
    assert progress.seconds_left == 0.0


def test_items_of_an_earlier_run_take_no_time():
    clock = ManualClock()
    progress = Progress("steps", 110, done=100, now=clock.now)
    assert progress.text == "steps: 100 of 110"
    clock.advance(3.0)
    progress.add()
    assert progress.text == "27 s left, steps: 101 of 110"


def test_without_a_total_there_is_no_time_left():
    progress = Progress("batches", None)
    progress.add()
    assert progress.text == "batches: 1"


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.4, "0 s"), (99, "99 s"), (100, "2 min"), (6000, "1.7 h")]
)
def test_a_duration_in_words(seconds, words):
    assert duration(seconds) == words


def test_lines_off_a_terminal(capsys):
    clock = ManualClock()
    progress = MapProgress("map", 4, prints=True, now=clock.now)
    for seconds in (10.0, 30.0, 2.0):
        clock.advance(seconds)
        progress.add_batch((torch.ones(8, 3), torch.ones(8)))
    progress.end()
    assert capsys.readouterr().err.splitlines() == [
        "60 s left, map: 2 of 4 batches, 16 items, 0.4 items/s",
        "map: 3 of 4 batches, 24 items, 0.571 items/s in 42 s",
    ]


def test_loops_within_loops():
    loops, seen = RunningLoops(), []
    for _ in loops.followed(range(2), Progress("epochs", 2)):
        for _ in loops.followed("ab", Progress("steps", None)):
            seen.append(loops.text)
    assert seen[:2] == ["epochs: 0 of 2; steps: 0", "epochs: 0 of 2; steps: 1"]
    assert loops.text == ""


def test_party_0_prints_and_nothing_is_sent(capfd):
    def main(session):
        before = session.stats.snapshot()
        found = list(session.progress([3, 1, 2]))
        spent = session.stats.snapshot().accumulate(before, -1)
        return found, spent.messages, spent.rounds

    assert tacit.run(main) == [([3, 1, 2], 0, 0)] * 3
    assert capfd.readouterr().err == "steps: 3 of 3 in 0 s\n"


def test_a_command_line_shows_all_loops_and_a_training(capfd, tmp_path):
    def main(session):
        session.loops.is_shown = True
        model = session.share(torch.nn.Linear(2, 1), owner=0)
        training, seen = session.training(model, every=9), []
        x = session.share(torch.ones(4, 2), owner=0)
        for _ in training.steps(2):
            with torch.no_grad():
                seen += [state(session) for _ in session.map(model, x.split(2))]
        return seen

    seen = tacit.run(main, folder=tmp_path)[1]
    assert re.match(r"steps: 0 of 2; (\d+ s left, )?map: .*; \d+ rounds, .* sent", seen[0])
    assert re.match(r"\d+ s left, steps: 1 of 2; \d+ s left, map: 2 of 2 batches", seen[-1])
    assert capfd.readouterr().err == ""


@pytest.fixture
def told(monkeypatch):
    """What was shown after each item of any loop."""
    texts, add = [], Progress.add

    def watched(self):
        add(self)
        texts.append(self.text)

    monkeypatch.setattr(Progress, "add", watched)
    return texts


def test_a_join_says_how_far_it_is(told, monkeypatch):
    monkeypatch.setattr(matching, "MOST_ELEMENTS", 500)
    left = {"id": list(range(40)), "a": [1.0] * 40}
    right = {"id": list(range(20, 60)), "b": [2.0] * 40}

    def main(session):
        tables = [
            table if session.rank == rank else None for rank, table in enumerate((left, right))
        ]
        return len(session.join(*tables, on="id", size="reveal"))

    assert tacit.run(main) == [20] * 3
    parts = int(re.fullmatch(r"\d+ s left, comparing rows: 1 of (\d+)", told[0])[1])
    assert parts > 1
    for name, total in (("comparing rows", parts), ("moving matches", 6)):
        texts = [text for text in told if f"{name}: " in text]
        assert len(texts) == 3 * total  # of three parties
        assert texts[-1] == f"0 s left, {name}: {total} of {total}"


COLUMNS = torch.arange(24.0).view(8, 3).sin()
LONG_WORK = {
    "k-means": (lambda x: stats.k_means(x, x[:2], steps=4), 4),
    "rotations of eigh": (lambda x: stats.pca(x, 2, sweeps=2), 2 * 3),
    "logistic regression": (lambda x: stats.logistic_regression(x, x[:, 0] > 0, steps=2), 2),
    "sorting": (lambda x: stats.quantiles(x, [0.5]), 3 * 4 // 2),
}


@pytest.mark.parametrize("name", LONG_WORK)
def test_long_statistics_say_how_far_they_are(name, told):
    work, total = LONG_WORK[name]

    def main(session):
        work(session.share(COLUMNS, owner=0))
        return session.loops.text

    assert tacit.run(main) == [""] * 3
    texts = [text for text in told if f"{name}: " in text]
    assert len(texts) == 3 * total
    assert re.fullmatch(rf"\d+ s left, {name}: 1 of {total}", texts[0])
    told.clear()
    work(COLUMNS)  # plain tensors have no session that counts
    assert told == []


def test_stored_runs_that_are_made_are_counted(told, tmp_path):
    def main(session):
        return session.share(torch.ones(2), owner=0).relu()

    tacit.preprocess(main, folder=tmp_path, runs=2, protocol="additive", parties=2)
    assert re.fullmatch(r"\d+ (s|min) left, runs: 1 of 2", told[0])
    assert told[-1] == "0 s left, runs: 2 of 2"


def test_a_rehearsal_shows_the_loops_of_the_job(capfd):
    progress = Rehearsing(is_shown=True)

    def main(session):
        x = session.share(torch.ones(2), owner=0)
        return [(x.relu(), progress.text)[1] for _ in session.progress(range(2))]

    texts = tacit.check(main, progress=progress).results[0]
    assert re.fullmatch(r"\d+ s left, steps: 1 of 2; \d operations", texts[1])
    assert capfd.readouterr().err == ""
