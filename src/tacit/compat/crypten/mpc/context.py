"""Programs of several parties on this machine."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from functools import wraps
from types import FunctionType
from typing import Any

from ....errors import PartyFailed
from ....runtime import Session, run
from ....runtime.launch.user_modules import own_files
from .. import initialization
from ..config import cfg
from .own_copies import OwnCopies

LOG = logging.getLogger("tacit")

__all__ = ["run_multiprocess"]


def run_multiprocess(world_size: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Returns a decorator: the function then runs at so many parties on this machine.

    A call returns a list of what it returns at each party, or None if a party fails; the log has
    the error. The parties are processes if the function can be imported, and else threads of this
    one: a function of the script itself, of a notebook, or inside of another function.
    """

    def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> list[Any] | None:
            return _run(call, world_size, args, kwargs)

        return call

    return decorated


def _run(
    call: Callable[..., Any], parties: int, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> list[Any] | None:
    config = cfg.config(parties)
    in_processes = parties > 1 and _is_importable(call)
    main = _in_process if in_processes else _in_thread
    try:
        return run(
            main,
            call if in_processes else call.__wrapped__,  # type: ignore[attr-defined]
            args,
            kwargs,
            cfg.snapshot(),
            parties=parties,
            protocol=config.protocol,
            transport="processes" if in_processes else "threads",
            fraction_bits=config.fraction_bits,
            debug=config.debug,
            dealer=config.dealer,
        )
    except PartyFailed:
        LOG.exception("a party of %s failed", call.__qualname__)
        return None


def _in_process(
    session: Session,
    call: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    settings: dict[str, Any],
) -> Any:
    """Runs the function that `run_multiprocess` has decorated, in a process of its own."""
    with initialization.initialized(session), cfg.own(settings):
        return call.__wrapped__(*args, **kwargs)  # type: ignore[attr-defined]


def _in_thread(
    session: Session,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    settings: dict[str, Any],
) -> Any:
    """Runs the function with modules and tensors of its own: the others are in this process."""
    copies = OwnCopies()
    own = copies.function(function) if isinstance(function, FunctionType) else function
    with initialization.initialized(session), cfg.own(settings):
        return own(*copies.value(args), **copies.value(kwargs))


def _is_importable(call: Callable[..., Any]) -> bool:
    """Whether another process finds the decorated function by its name."""
    name, path = call.__module__, call.__qualname__.split(".")
    if name == "__main__" or name not in sys.modules or not own_files([name]):
        return False
    found: Any = sys.modules[name]
    for inner in path:
        found = getattr(found, inner, None)
    return found is call
