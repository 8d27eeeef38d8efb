"""Rounds merged on a GPU, where each party is a process: the numbers of calls, in fewer rounds.

Replays use memory that users must not get, whatever they allocate and free in between.
"""

import pytest
import torch
from tests.runtime.merged_functions import CASES, compared

import tacit

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no GPU here")


def all_cases(session):
    """The rounds of replays and calls of each function; all in one session, which starts once."""
    return {name: compared(session, name) for name in CASES}


def test_merged_replays_are_the_calls_whatever_users_allocate() -> None:
    found = tacit.run(all_cases, device="cuda", transport="processes")
    for name in CASES:
        rounds = [rounds for one in found for rounds in [one[name]]]
        assert all(merged <= of_call for merged, of_call in rounds)
        assert any(merged < of_call for merged, of_call in rounds), name
