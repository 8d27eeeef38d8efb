"""Memory that does not suffice, told in terms of what a user can change."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from ..errors import OutOfMemory

if TYPE_CHECKING:
    from .context import Context

ON_CPU = "DefaultCPUAllocator"  # in what torch says of a CPU


def raise_if_exhausted(error: RuntimeError, context: Context) -> None:
    """Raises OutOfMemory if that is what torch means."""
    on_gpu = isinstance(error, torch.OutOfMemoryError)
    if not on_gpu and ON_CPU not in str(error):
        return
    device = context.memo.away or context.device if on_gpu else torch.device("cpu")
    ways = "a smaller batch needs less, and so does "
    ways += "a" if context.memory_limit is None else "a lower"
    ways += " memory_limit= (of the bytes that an operation takes beyond operands and results"
    ways += ")" if context.memory_limit is None else f"; now {context.memory_limit})"
    if on_gpu and context.memo.away is None:
        ways += ", or placement='linear', which leaves shares on the CPU"
    party, number = context.rank, context.operation
    raise OutOfMemory(
        f"party {party} is out of memory on {device} at operation {number}: {ways}",
        party=party,
        operation=number,
    ) from error
