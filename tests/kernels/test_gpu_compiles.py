"""The kernels for GPUs compile, also where there is no GPU: an interpreter accepts more."""

import inspect
import os
import subprocess
import sys

import pytest

gpu = pytest.importorskip("tacit.kernels.gpu")

MODULES = ("chacha", "convolution", "direct", "gate_kernels", "gemm", "injection_kernels")
MODULES += ("planes", "powers_of_two", "residues", "waves", "weight_gradient")


def launched() -> set[str]:
    """The names of all kernels that host functions launch: those whose decorator has arguments."""
    texts = [inspect.getsource(getattr(gpu, module)) for module in MODULES]
    return {part.split("(")[0] for text in texts for part in text.split(")\ndef ")[1:]}


@pytest.mark.full("the compiler; the quick tier runs the same kernels in Triton's interpreter")
def test_every_kernel_compiles():
    env = {**os.environ, "TACIT_KERNELS": "triton", "TRITON_INTERPRET": "0"}
    command = [sys.executable, "-W", "ignore", "-m", "tests.kernels.compile_gpu"]
    found = subprocess.run(command, capture_output=True, text=True, env=env)
    assert found.returncode == 0, found.stderr
    assert set(found.stdout.split()) >= launched()
