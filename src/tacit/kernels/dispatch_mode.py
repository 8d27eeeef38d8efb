"""Watching torch's operations without torch's compiler.

A mode of torch wraps what it does so that the compiler stays away. That imports the compiler at the
first operation, which takes seconds, and passes through it at every other one.
"""

from __future__ import annotations

from types import FunctionType
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


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
