"""Malformed inputs of every kind but data files: refused in our words, in time, within memory.

`tests/runtime/test_files_fuzz.py` does the same for data files.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.fuzz.attempts import KINDS, Case, attempt, plant
from tests.tiers import FULL

from tacit.errors import ConfigError

ROOT = Path(__file__).parents[2]
SEED = 20260302
COUNT = 30 if FULL else 12  # blind changes of each kind, about; crafted inputs come on top
LEAST, LEAST_OF_A_KIND = (500, 20) if FULL else (300, 10)
MOST_SECONDS, MOST_COMPUTING = 120.0, 2.0  # by the clock, where others may be computing too
MOST_CHARACTERS = 3000  # of a message
ENVIRONMENT = {**os.environ, "MALLOC_ARENA_MAX": "1", "OMP_NUM_THREADS": "1"}
TOGETHER = (
    ("frames", "last words", "hellos", "hellos in TLS", "certificates in TLS"),
    ("party files", "key files", "certificates", "probes", "session keys", "stored runs"),
    (
        *("agreements", "announcements", "announcements of a join"),
        *("checkpoints", "contents of checkpoints"),
    ),
    ("quotes", "messages of a host"),
)

Outcomes = list[dict[str, Any]]


def _attempts(kinds: tuple[str, ...], folder: Path) -> Outcomes:
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.attempts", str(SEED), str(COUNT), str(folder), *kinds],
        cwd=ROOT,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=1200,
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, (kinds, lines[-1:], done.stderr[-3000:])
    return [line for line in lines if "error" in line]


@pytest.fixture(scope="module")
def attempts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Future[Outcomes]]]:
    """The outcomes by kind; of one process for some kinds each, two at a time."""
    with ThreadPoolExecutor(2) as pool:
        futures = {
            kinds: pool.submit(_attempts, kinds, tmp_path_factory.mktemp("fuzz"))
            for kinds in TOGETHER
        }
        yield {kind: future for kinds, future in futures.items() for kind in kinds}


def _of(attempts: dict[str, Future[Outcomes]], kind: str) -> Outcomes:
    return [outcome for outcome in attempts[kind].result() if outcome["kind"] == kind]


@pytest.fixture
def outcomes(attempts: dict[str, Future[Outcomes]], request: pytest.FixtureRequest) -> Outcomes:
    print(f"seed {SEED}, {COUNT} of each")
    return _of(attempts, request.param)


every_kind = pytest.mark.parametrize("outcomes", KINDS, indirect=True)


def test_there_are_many(attempts: dict[str, Future[Outcomes]]) -> None:
    counts = {kind: len(_of(attempts, kind)) for kind in KINDS}
    print(counts)
    assert sum(counts.values()) >= LEAST, counts
    assert min(counts.values()) >= LEAST_OF_A_KIND, counts


@every_kind
def test_nothing_but_our_errors_comes_out(outcomes: Outcomes) -> None:
    assert [case for case in outcomes if not case["ours"]] == []


@every_kind
def test_no_thread_dies_of_it(outcomes: Outcomes) -> None:
    assert [case for case in outcomes if case["background"]] == []


@every_kind
def test_what_is_hostile_is_refused(outcomes: Outcomes) -> None:
    assert [case["what"] for case in outcomes if case["hostile"] and not case["error"]] == []


@every_kind
def test_none_takes_long(outcomes: Outcomes) -> None:
    for case in outcomes:
        assert case["seconds"] < MOST_SECONDS, case
        assert case["computing"] < MOST_COMPUTING, case


@every_kind
def test_no_error_shows_a_secret(outcomes: Outcomes) -> None:
    assert [case for case in outcomes if case["leaks"]] == []


@every_kind
def test_errors_name_where_the_input_is_from(outcomes: Outcomes) -> None:
    errors = [case for case in outcomes if case["error"]]
    assert errors
    assert [case for case in errors if case["names"] not in case["message"]] == []


@every_kind
def test_messages_are_short_and_can_be_printed(outcomes: Outcomes) -> None:
    def is_plain(text: str) -> bool:
        return len(text) <= MOST_CHARACTERS and text.replace("\n", "").isprintable()

    assert [case["message"][:200] for case in outcomes if not is_plain(case["message"])] == []


@pytest.mark.parametrize("secret", [b"eight by", b"a longer one of other bytes"])
def test_a_secret_in_the_cause_of_an_error_would_be_seen(secret: bytes) -> None:
    def leak() -> None:
        try:
            raise ValueError(int.from_bytes(secret, "little") if len(secret) == 8 else secret)
        except ValueError as error:
            raise ConfigError("nothing to see here") from error

    plant("a secret", secret)
    assert attempt(Case("", leak))["leaks"] == ["a secret"]
