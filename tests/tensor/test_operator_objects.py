"""Threads that ask torch for an operator at once get the same object of it."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import sys, time
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import torch
from torch import _ops

import tacit.tensor  # what is tested

THREADS, both = 4, Barrier(4)


def slowly(make):
    def made(*args, **kwargs):
        time.sleep(0.05)
        return make(*args, **kwargs)
    return made


_ops.OpOverloadPacket.__init__ = slowly(_ops.OpOverloadPacket.__init__)
_ops.OpOverload.__init__ = slowly(_ops.OpOverload.__init__)


def asked(_):
    both.wait()
    packet = torch.ops.aten.{name}
    both.wait()
    return packet, packet.default


assert "{name}" not in torch.ops.aten.__dict__
with ThreadPoolExecutor(THREADS) as threads:
    found = list(threads.map(asked, range(THREADS)))
assert len({{id(packet) for packet, _ in found}}) == 1
assert len({{id(overload) for _, overload in found}}) == 1
"""


@pytest.mark.parametrize("name", ["_foreach_cos_", "_foreach_sinh"])
def test_threads_get_one_object_of_an_operator(name):
    script = SCRIPT.format(name=name)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_what_is_no_operator_is_an_attribute_error():
    import torch

    import tacit.tensor  # noqa: F401

    with pytest.raises(AttributeError, match="no attribute 'not_an_operator'"):
        _ = torch.ops.aten.not_an_operator
    with pytest.raises(AttributeError, match="no overload name 'not_an_overload'"):
        _ = torch.ops.aten.add.not_an_overload
    assert torch.ops.aten.add.Tensor is torch.ops.aten.add.Tensor
