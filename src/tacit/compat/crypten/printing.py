"""Texts that one party prints or logs, or all of them in turn."""

from __future__ import annotations

import builtins
import logging
from collections.abc import Callable
from typing import Any

from . import communicator


def print(*args: Any, in_order: bool = False, dst: Any = 0, **kwargs: Any) -> None:
    """Prints at party `dst`, or at each of a list; with `in_order` at all parties in turn."""
    _tell(builtins.print, in_order, dst, args, kwargs)


def log(*args: Any, in_order: bool = False, dst: Any = 0, **kwargs: Any) -> None:
    """As `print`, with `logging.log`: the first argument is the level."""
    _tell(logging.log, in_order, dst, args, kwargs)


def _tell(
    tell: Callable[..., Any],
    in_order: bool,
    dst: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> None:
    channel = communicator.get()
    if not in_order:
        if channel.rank in ([dst] if isinstance(dst, int) else dst):
            tell(*args, **kwargs)
        return
    for rank in range(channel.world_size):
        if rank == channel.rank:
            tell(*args, **kwargs)
        channel.barrier()
