"""Kernels called from several threads at once, and from a forked child."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import torch
from tests.kernels.draws import ring_tensor

from tacit import kernels
from tacit.ring import RING32, RING64


def work(seed: int) -> bool:
    """A mixture of calls, each compared with torch."""
    ring = (RING32, RING64)[seed % 2]
    a, b = ring_tensor(ring, (70, 200), seed), ring_tensor(ring, (200, 90), seed + 1)
    x, weight = ring_tensor(ring, (2, 16, 9, 9), seed), ring_tensor(ring, (24, 16, 3, 3), seed)
    planes = kernels.bit_planes(a, ring.bits)
    small = x % 1000
    columns = torch.nn.functional.unfold(small.double(), 3).to(ring.dtype)
    expected = (weight.flatten(1) @ columns).view(2, 24, 7, 7)
    return (
        torch.equal(kernels.matmul(a, b, method="encoded"), a @ b)
        and torch.equal(kernels.conv2d(small, weight, method="encoded"), expected)
        and torch.equal(kernels.from_bit_planes(planes, a.shape, ring.dtype), a)
    )


def test_threads_do_not_disturb_each_other():
    before = kernels.num_threads()
    kernels.set_num_threads(3)
    try:
        with ThreadPoolExecutor(5) as pool:
            assert all(pool.map(work, range(60)))
    finally:
        kernels.set_num_threads(before)


FORKED = """
import os, sys, warnings
warnings.simplefilter("ignore")
import torch
from tacit import kernels
kernels.set_num_threads(3)
a = torch.arange(300 * 300).view(300, 300)
right = kernels.matmul(a, a, method="encoded").numpy().tobytes()
child = os.fork()
if child == 0:
    again = kernels.matmul(a, a, method="encoded")
    os._exit(again.numpy().tobytes() != right)  # torch's own threads did not survive the fork
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_forked_child_has_threads_of_its_own():
    assert subprocess.run([sys.executable, "-c", FORKED], timeout=60).returncode == 0
