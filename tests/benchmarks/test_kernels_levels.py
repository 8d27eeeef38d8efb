"""The suite `kernels_levels`: all cases run at all levels that there are, and compute the same."""

import pytest
import torch
from benchmarks.kernels_levels import at, cases

from tacit.kernels.levels import usable_levels

CASES = cases()


@pytest.mark.parametrize("name", CASES)
def test_every_level_computes_the_same(name):
    *_, call = CASES[name]
    expected = call().clone()
    for level in usable_levels():
        assert torch.equal(at(level, call)(), expected)
