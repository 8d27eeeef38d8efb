"""Which session the calls of this thread belong to: CrypTen's functions are not given one."""

from __future__ import annotations

import os
import secrets
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from ...errors import ConfigError
from ...runtime import Session
from ...runtime.launch.program import open_session
from ...transport import memory_meshes
from .config import cfg

T = TypeVar("T")
_thread = threading.local()


def init(
    config_file: Any = None,
    party_name: str | None = None,
    device: Any = None,
    *,
    session: Session | None = None,
) -> None:
    """Begins: the tensors of this thread belong to `session` until `uninit`.

    session: that of `tacit.connect`, or the one that `main` of a job is given. Without one, this
    process is the only party. Nothing is hidden from a single party, so it computes on the numbers
    themselves, rounded as they would be on shares.
    """
    if config_file is not None:
        raise ConfigError(
            "config_file: files of settings are not read",
            remedy="set crypten.cfg before, or use crypten.cfg.temp_override(settings)",
        )
    if is_initialized():
        warnings.warn("CrypTen's layer is initialized already", RuntimeWarning, stacklevel=2)
        return
    _thread.session = session or _alone()
    _thread.is_own = session is None
    if party_name is not None:
        _thread.name = party_name


def uninit() -> None:
    """Ends what `init` began; a session that it was given stays open."""
    if is_initialized() and _thread.is_own:
        _thread.session.close()
    _thread.__dict__.clear()


def is_initialized() -> bool:
    """Returns whether `init` was called in this thread."""
    return hasattr(_thread, "session")


def current_session() -> Session:
    """Returns the session of this thread's tensors."""
    if not is_initialized():
        raise ConfigError(
            "no session in this thread", remedy="call crypten.init() before the first tensor"
        )
    found: Session = _thread.session
    return found


def kept(name: str, make: Callable[[], T]) -> T:
    """Returns what `make` returned when it was first asked for by this name in this session."""
    if name not in _thread.__dict__:
        setattr(_thread, name, make())
    found: T = getattr(_thread, name)
    return found


def keep(name: str, value: Any) -> None:
    """Makes this what `kept` returns in this session."""
    setattr(_thread, name, value)


def party_name() -> str:
    """Returns the name given to `init`, or CrypTen's default."""
    name: str = getattr(_thread, "name", f"rank{current_session().rank}")
    return name


@contextmanager
def initialized(session: Session) -> Iterator[None]:
    """Within the context the tensors of this thread belong to `session`."""
    before = dict(_thread.__dict__)
    _thread.__dict__.clear()
    init(session=session)
    try:
        yield
    finally:
        _thread.__dict__.clear()
        _thread.__dict__.update(before)


def _alone() -> Session:
    if (size := os.environ.get("WORLD_SIZE", "1")) != "1":
        raise ConfigError(
            f"WORLD_SIZE={size}: CrypTen's launcher names other parties",
            limit="it gives them no keys to prove who they are, and this process would be alone",
            remedy="give crypten.init(session=...) a session of tacit.connect or of tacit run",
        )
    [mesh] = memory_meshes(1)
    return open_session(mesh, config=cfg.config(1), session_id=secrets.token_bytes(16))
