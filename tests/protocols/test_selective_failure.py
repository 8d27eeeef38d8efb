"""Whether a run ends does not depend on the secrets: the leak experiment, with one cheating party.

The same statistics find the secret in the published structure of messages, and in a quad that does
not compare what is dealt; see `selective_failure.py`.
"""

from __future__ import annotations

import pytest
import torch
from tests.protocols import quad_mutants
from tests.protocols.selective_failure import (
    FLIP,
    OPERATIONS,
    THREE,
    Trial,
    cheated,
    dependence,
    drawn_changes,
    guessed,
    published_and,
    published_injection,
)
from tests.tiers import FULL, spread

# A chi-square statistic with 3 degrees of freedom lies beyond with p < 1e-12.
LIMIT = 60.0
# Of an operation, over the three parties that send something in it; with three parties fewer, as
# each run also verifies its products. Every change is made equally often.
RUNS = 2_000 if FULL else 200
VERIFIED_RUNS = 800 if FULL else 200


def leaks(seen: list[Trial]) -> list[int]:
    """The operands about whose secret the cheating party learns something."""
    return [i for i in range(len(seen[0].secrets)) if dependence(seen, i) > LIMIT]


@pytest.mark.parametrize("name", OPERATIONS)
def test_the_end_of_a_run_tells_nothing(name):
    seed = torch.seed()
    print(f"seed {seed}")
    for party in (1, 2, 3):
        changes = drawn_changes(name, party, RUNS // 3 + 1, seed)
        seen = cheated(name, party, changes, seed % (1 << 62))
        assert all(one.aborted == one.changed for one in seen), f"party {party}"
        assert not leaks([one for one in seen if one.changed]), f"party {party}"


@pytest.mark.parametrize("name", spread([*OPERATIONS], 3))
def test_the_end_of_a_verified_run_tells_nothing(name):
    """Three parties; messages of the operation and of its verification are changed."""
    seed = torch.seed()
    print(f"seed {seed}")
    for party in range(3):
        changes = drawn_changes(name, party, VERIFIED_RUNS // 3 + 1, seed, THREE)
        seen = cheated(name, party, changes, seed % (1 << 62), THREE)
        assert all(one.aborted == one.changed for one in seen), f"party {party}"
        assert not leaks([one for one in seen if one.changed]), f"party {party}"


def test_the_statistics_find_the_secret_in_published_messages():
    seen = published_and(RUNS, 1)
    assert 0.4 < sum(one.aborted for one in seen) / RUNS < 0.6
    assert leaks(seen) == [3]
    assert dependence(seen, 3) == pytest.approx(RUNS)  # it learns the bit in every run
    assert leaks(published_injection(RUNS, 2)) == [0]


def test_the_statistics_find_the_secret_if_values_that_are_dealt_are_not_compared(monkeypatch):
    """Party 2 flips the product of the first two bits that it deals: the third mask shows it."""
    quad_mutants.MUTANTS["values that are dealt are not compared"].apply(monkeypatch)
    seen = cheated("bit_and of 3", 2, [FLIP] * 300, 5)
    assert 0.3 < sum(one.aborted for one in seen) / len(seen) < 0.7
    assert leaks(seen) == [3]


def test_a_comparison_does_not_tell_which_guess_is_right():
    """A hash of party 0 would tell party 2 a mask that it must not know; the sum tells nothing."""
    for one in guessed(60 if FULL else 20):
        assert one.hashes[one.mask] == one.shown != one.hashes[1 - one.mask]
        assert 0 not in one.totals
    assert all(one.totals[0] == 0 != one.totals[1] for one in guessed(3, None))  # nothing changed
