"""Memory that does not suffice, told in terms of what a user can change."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch

from ..errors import OutOfMemory
from ..transport import CPU

if TYPE_CHECKING:
    from .context import Context

ON_CPU = "DefaultCPUAllocator"  # in what torch says of a CPU
ON_GPU = "CUDA error: out of memory"  # in what CUDA says, if not through torch's allocator


@contextmanager
def explained(context: Context, where: str) -> Iterator[None]:
    """OutOfMemory instead of what torch says of it."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        raise_if_exhausted(error, context, where)
        raise


def raise_if_exhausted(error: Exception, context: Context, where: str) -> None:
    """Raises OutOfMemory if the error means that; `where` says what was done."""
    if isinstance(error, OutOfMemory):
        return
    on_gpu = isinstance(error, torch.OutOfMemoryError) or ON_GPU in str(error)
    if not on_gpu and not isinstance(error, MemoryError) and ON_CPU not in str(error):
        return
    device = context.memo.away or context.device if on_gpu else CPU
    ways = "a smaller batch needs less, and so does "
    ways += "a" if context.memory_limit is None else "a lower"
    ways += " memory_limit= (of the bytes that an operation takes beyond operands and results"
    ways += ")" if context.memory_limit is None else f"; now {context.memory_limit})"
    if on_gpu and context.memo.away is None:
        ways += ", or placement='linear', which leaves shares on the CPU"
    raise OutOfMemory(
        f"party {context.rank} is out of memory on {device} {where}: {ways}",
        party=context.rank,
        operation=context.operation,
    ) from error
