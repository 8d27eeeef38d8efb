"""What torch's compilers must not do with secret tensors."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from ..errors import UnsupportedOp
from ..kernels.dispatch_mode import never_compile
from .secret import SecretTensor


def register() -> None:
    """Keeps torch.compile out of the rules, and torch.jit.trace from comparing results."""
    never_compile(SecretTensor.__torch_dispatch__.__func__)  # type: ignore[attr-defined]
    tracing = torch.jit._trace
    tracing._clone_inputs = _without_secrets(tracing._clone_inputs)


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
