"""Watching operations neither imports torch's compiler nor is compiled by it."""

from __future__ import annotations

import subprocess
import sys
from typing import NamedTuple

import pytest
import torch
from torch.utils._pytree import tree_leaves, tree_map

from tacit.kernels.dispatch_mode import DispatchMode, leaves, with_each_leaf

PROGRAM = """
import sys, torch
from tacit.kernels.dispatch_mode import DispatchMode
class Watch(DispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))
with Watch():
    torch.ones(2) + 1
assert "torch._dynamo" not in sys.modules
"""


class Watch(DispatchMode):
    """Notes the names of operations."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


def test_the_compiler_is_not_imported():
    subprocess.run([sys.executable, "-c", PROGRAM], check=True, timeout=120)


def test_operations_of_a_compiled_function_are_seen():
    def function(x):
        return torch.sin(x) + 1

    x = torch.randn(5)
    with Watch() as watch:
        found = torch.compile(function, backend="eager")(x)
    assert torch.equal(found, function(x))
    assert "aten.sin.default" in watch.names


class Pair(NamedTuple):
    first: object
    second: object


NESTS = [3, [], [1, (2, [3])], {"a": (1, {"b": [2]}), "c": None}, Pair([1], 2), [Pair(1, (2,))]]


@pytest.mark.parametrize("nest", NESTS)
def test_nests_are_those_of_torch(nest):
    assert leaves(nest) == tree_leaves(nest)
    found = with_each_leaf(str, nest)
    assert found == tree_map(str, nest)
    assert type(found) is type(tree_map(str, nest))
