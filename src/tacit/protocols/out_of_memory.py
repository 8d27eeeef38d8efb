"""Explains an allocation that failed in terms of what a user can change."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from ..errors import OutOfMemory, Party, Phrase
from ..transport import CPU

if TYPE_CHECKING:
    from .context import Context

ON_CPU = "DefaultCPUAllocator"  # part of torch's message if an allocation on the CPU fails
ON_GPU = "CUDA error: out of memory"  # part of CUDA's message, outside of torch's allocator


def out_of_memory(error: Exception, context: Context, where: Phrase) -> OutOfMemory | None:
    """Returns the OutOfMemory to raise for this error, or None if it means something else.

    `where` says what the party was doing.
    """
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
        Party(context.rank) + f" is out of memory on {device} " + where,
        remedy=ways,
        party=context.rank,
        operation=context.operation,
    )
