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


def run(code: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **env}
    )


def test_an_unknown_choice_is_refused():
    code = "import torch, tacit.kernels as k; x = torch.zeros(1, 1).long(); k.matmul(x, x)"
    found = run(code, TACIT_KERNELS="fastest")
    assert "ConfigError: TACIT_KERNELS='fastest': allowed are auto, reference" in found.stderr


MISSING = """
import sys, torch
sys.modules["tacit.kernels.native"] = None  # importing it fails
from tacit import kernels
x = torch.tensor([[2**62, 3], [-1, 7]])
for _ in range(2):
    assert torch.equal(kernels.matmul(x, x), x @ x)
assert kernels.stream(bytes(16), torch.zeros(4).long(), operation=1).count_nonzero() == 4
"""


def test_a_missing_extension_falls_back_and_says_so_once():
    found = run(MISSING)
    assert found.returncode == 0, found.stderr
    assert found.stderr.count("the compiled kernels are missing") == 1


def test_threads_are_checked():
    with pytest.raises(ConfigError, match="num_threads=0"):
        kernels.set_num_threads(0)
