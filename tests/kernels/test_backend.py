"""The switch between compiled kernels and reference."""

import os
import subprocess
import sys

import pytest
import torch

from tacit import kernels
from tacit.errors import ConfigError
from tacit.kernels import backend


def test_the_compiled_kernels_are_there():
    """A test run on the reference by accident would prove nothing."""
    assert backend.load_native() is not None


def test_forced_reference(force_reference):
    force_reference()
    assert backend.native_for(torch.zeros(1)) is None
    assert kernels.num_threads() == torch.get_num_threads()


def test_other_devices_take_the_reference():
    assert backend.native_for(torch.zeros(1, device="meta")) is None


def test_an_unknown_choice_is_refused(choose):
    choose("fastest")
    x = torch.zeros(1, 1, dtype=torch.int64)
    with pytest.raises(ConfigError, match="TACIT_KERNELS='fastest': allowed are auto, reference"):
        kernels.matmul(x, x)


def test_a_missing_extension_falls_back_and_says_so_once(choose, monkeypatch):
    monkeypatch.setitem(sys.modules, "tacit.kernels.processor", None)  # importing it fails
    choose("auto")
    x = torch.tensor([[2**62, 3], [-1, 7]])
    with pytest.warns(RuntimeWarning, match="the compiled kernels are missing"):
        found = kernels.matmul(x, x)
    assert torch.equal(found, x @ x)
    # Warnings are errors in tests: a second one would be raised here.
    assert torch.equal(kernels.matmul(x, x), x @ x)
    words = kernels.stream(bytes(16), torch.zeros(4, dtype=torch.int64), operation=1)
    assert words.count_nonzero() == 4


def test_threads_are_checked():
    with pytest.raises(ConfigError, match="num_threads=0"):
        kernels.set_num_threads(0)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="the system has no such call")
def test_threads_are_as_many_as_the_cores_that_may_be_used():
    """A container or `taskset` gives a process fewer than the machine has."""
    program = """
import os
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
from tacit import kernels
raise SystemExit(kernels.num_threads() != 1)
"""
    assert subprocess.run([sys.executable, "-W", "ignore", "-c", program]).returncode == 0
