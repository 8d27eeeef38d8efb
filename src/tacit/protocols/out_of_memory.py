"""Memory that does not suffice, told in terms of what a user can change."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch

from ..errors import OutOfMemory, Party
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
        if exhausted := out_of_memory(error, context, where):
            raise exhausted from error
        raise


def out_of_memory(error: Exception, context: Context, where: str) -> OutOfMemory | None:
    """What to raise if that is what the error means, and is not told yet; `where`: doing what."""
    on_gpu = isinstance(error, torch.OutOfMemoryError) or ON_GPU in str(error)
    on_cpu = isinstance(error, MemoryError) or ON_CPU in str(error)
    if isinstance(error, OutOfMemory) or not (on_gpu or on_cpu):
        return None
    device = context.products.offload or context.device if on_gpu else CPU
    limit = context.memory_limit
    ways = "a smaller batch needs less, and so does a memory_limit= "
    ways += "" if limit is None else f"below {limit} "
    ways += "(of the bytes that an operation takes beyond operands and results)"
    if on_gpu and context.products.offload is None:
        ways += ", or placement='linear', which leaves shares on the CPU"
    return OutOfMemory(
        Party(context.rank) + f" is out of memory on {device} {where}",
        remedy=ways,
        party=context.rank,
        operation=context.operation,
    )
