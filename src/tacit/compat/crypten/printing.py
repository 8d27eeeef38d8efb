"""Texts that one party prints or logs, or all of them in turn."""

from __future__ import annotations

import builtins
import logging
from collections.abc import Callable
from typing import Any

from . import communicator
from .refused_call import RefusedAssertion


def print(*args: Any, in_order: bool = False, dst: Any = 0, **kwargs: Any) -> None:
    """Prints at party `dst`, or at each of a list; with `in_order` at all parties in turn."""
    _tell(builtins.print, in_order, dst, args, kwargs)


def log(
    *args: Any, level: int = logging.INFO, in_order: bool = False, dst: Any = 0, **kwargs: Any
) -> None:
    """As `print`, to the log."""
    _tell(logging.log, in_order, dst, (level, *args), kwargs)


def print_in_order(*args: Any, **kwargs: Any) -> None:
    """Prints at all parties in turn."""
    print(*args, in_order=True, **kwargs)


def _tell(
    tell: Callable[..., Any],
    in_order: bool,
    dst: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> None:
    channel = communicator.get()
    if not in_order:
        if not isinstance(dst, int | list | tuple):
            raise RefusedAssertion(f"{dst=}", limit="a rank, or a list of ranks")
        if channel.rank in ([dst] if isinstance(dst, int) else dst):
            tell(*args, **kwargs)
        return
    for rank in range(channel.world_size):
        if rank == channel.rank:
            tell(*args, **kwargs)
        channel.barrier()
