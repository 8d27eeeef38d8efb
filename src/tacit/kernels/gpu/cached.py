"""Kernels of bytes, which need aligned rows: compiled once for dtypes and constants, kept, started.

Like `launch`, but for pointers that Triton may take to be aligned: those to residues, which are
allocated here. Kernels mark the others, and every integer, as not to be specialized on.
"""

from __future__ import annotations

from collections.abc import Hashable
from threading import Lock
from typing import Any

from torch import Tensor
from triton.runtime.jit import JITFunction

from .launch import Ready, on, start

_ready: dict[Hashable, Ready] = {}
_first_call = Lock()  # the parties of a process may be threads


def run(
    kernel: Any,
    grid: tuple[int, int],
    tensors: tuple[Tensor, ...],
    integers: tuple[int, ...],
    constants: dict[str, Any],
    **options: int,
) -> None:
    """Starts a kernel on the device of its tensors; its parameters come in the order given here.

    What was compiled is kept, unless an integer needs more than 32 bits: Triton then sees to it.
    """
    device = tensors[0].device
    dtypes = [tensor.dtype for tensor in tensors]
    values = constants.values()
    key = (id(kernel), device.index, *dtypes, *values, *options.values())
    ready = _ready.get(key) if max(integers) >> 31 == 0 else None
    if ready is not None:
        start(ready, device, (*grid, 1), (*tensors, *integers, *values))
        return
    with _first_call, on(device):
        made = kernel[grid](*tensors, *integers, **constants, **options)
    if isinstance(kernel, JITFunction) and max(integers) >> 31 == 0:
        _ready[key] = Ready(made)
