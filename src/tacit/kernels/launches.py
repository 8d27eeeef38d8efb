"""Tells of the kernels that a thread launches on a GPU, so that they can be launched again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from torch import Tensor

_thread = threading.local()


class LaunchObserver(Protocol):
    """Is told of launches."""

    def note_launch(
        self, start: Callable[..., None], args: tuple[Any, ...], written: Sequence[Tensor]
    ) -> None:
        """Notes that `start(*args)` is about to launch a kernel.

        written: those of the tensors in `args` that it writes.
        """


def launch_observer() -> LaunchObserver | None:
    """Returns who is told of this thread's launches, if anybody is."""
    return getattr(_thread, "observer", None)


@contextmanager
def launches_noted(observer: LaunchObserver) -> Iterator[None]:
    """In the block, an observer is told of this thread's launches."""
    before, _thread.observer = launch_observer(), observer
    try:
        yield
    finally:
        _thread.observer = before
