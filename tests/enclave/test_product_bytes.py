"""Outsourced products take no more memory inside an enclave than is counted before they begin."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.enclave.product_bytes_program import CASES
from tests.enclave.workers import OUTSOURCED
from tests.forked import run
from tests.tiers import FULL

SMALL = 1 << 20  # what the reserve of a memory is for


@pytest.mark.parametrize("mode", OUTSOURCED if FULL else OUTSOURCED[:1])
def test_a_process_grows_by_less_than_is_said(mode):
    """As the kernel measures it, in a process of its own: all memory, whoever allocates it."""
    program = Path(__file__).with_name("product_bytes_program.py")
    env = {**os.environ, "MIMALLOC_PURGE_DELAY": "0"}
    code, out, errors = run([program, mode], env=env, timeout=300)
    assert code == 0, errors
    _, *lines = (line.split("|") for line in out.splitlines())
    assert len(lines) == 2 * len(CASES)
    for grown, said, *what in lines:
        assert int(grown) < int(said) + SMALL, what
    # The system takes memory back while others need it: the growth of some may not be seen.
    assert any(int(grown) > int(said) / 5 for grown, said, *_ in lines)
