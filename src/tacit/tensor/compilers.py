"""What torch's compilers must not do with secret tensors."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from ..errors import UnsupportedOp
from .secret import SecretTensor


def register() -> None:
    """Keeps torch.compile out of the rules, and torch.jit.trace from comparing results."""
    _skip_dispatch()
    tracing = torch.jit._trace
    tracing._clone_inputs = _without_secrets(tracing._clone_inputs)


def _skip_dispatch() -> None:
    """Has torch.compile run operations on secrets as they are: it would compile their rules."""
    frames = torch._C._dynamo.eval_frame
    if hasattr(frames, "set_code_exec_strategy"):
        skip = frames._FrameAction.SKIP
        code = SecretTensor.__torch_dispatch__.__func__.__code__  # type: ignore[attr-defined]
        frames.set_code_exec_strategy(code, frames._FrameExecStrategy(skip, skip))


def _without_secrets(clone_inputs: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """`_clone_inputs` prepares the comparison of a trace with the function; secrets refuse it."""

    @wraps(clone_inputs)
    def checked(args: Any) -> Any:
        if any(type(x) is SecretTensor for x in tree_leaves(args)):
            raise UnsupportedOp(
                "torch.jit.trace compares results of secrets, which would open them",
                remedy="call the module itself, or trace with check_trace=False",
            )
        return clone_inputs(args)

    return checked
