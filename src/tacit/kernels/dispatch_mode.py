"""Watching torch's operations without torch's compiler.

A mode of torch wraps what it does so that the compiler stays away. That imports the compiler at the
first operation, which takes seconds, and passes through it at every other one.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map


class DispatchMode(TorchDispatchMode):
    """A mode whose `__torch_dispatch__` runs as it is, also within a compiled function."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)  # type: ignore[no-untyped-call]
        never_compile(cls.__torch_dispatch__)  # type: ignore[arg-type]

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False


def never_compile(function: FunctionType) -> None:
    """Has torch.compile run a function, and all that it calls, as it is."""
    frames = torch._C._dynamo.eval_frame
    if hasattr(frames, "set_code_exec_strategy"):
        skip = frames._FrameAction.SKIP
        frames.set_code_exec_strategy(function.__code__, frames._FrameExecStrategy(skip, skip))


def leaves(nest: Any) -> list[Any]:
    """Returns what lists, tuples and dictionaries hold, at every depth.

    It is for the arguments and results of torch's operations, which hold nothing else; torch's
    `tree_leaves` looks for many other kinds of nests, and takes several times as long.
    """
    if isinstance(nest, dict):
        nest = nest.values()
    elif not isinstance(nest, list | tuple):
        return [nest]
    found = []
    for part in nest:
        if isinstance(part, list | tuple | dict):
            found += leaves(part)
        else:
            found.append(part)
    return found


def with_each_leaf(function: Callable[[Any], Any], nest: Any) -> Any:
    """Returns the nest with what the function returns for each leaf; as fast as `leaves`."""
    kind = type(nest)
    if kind is tuple:
        return tuple([with_each_leaf(function, part) for part in nest])
    if kind is list:
        return [with_each_leaf(function, part) for part in nest]
    if kind is dict:
        return {key: with_each_leaf(function, part) for key, part in nest.items()}
    if isinstance(nest, list | tuple | dict):  # a named tuple, for example
        return tree_map(function, nest)
    return function(nest)
