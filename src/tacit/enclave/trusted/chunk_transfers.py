"""Chunks on their way into an enclave and out of it: several at a time, where cores are free.

AES-GCM and the host's storage let other threads of Python run. So threads of their own seal and
open chunks, each another one, while an operation computes or waits for all that it needs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Condition, RLock
from typing import Any

from .sealed_chunks import Chunk

MOST_THREADS = 4
BUSY_CORES = 2  # of an operation and a worker; a thread that takes one of them saves nothing


def num_transfer_threads() -> int:
    """Returns how many threads move chunks: the cores of this process, without the busy ones."""
    return min(max(len(os.sched_getaffinity(0)) - BUSY_CORES, 0), MOST_THREADS)


class ChunkTransfers:
    """Moves chunks on threads; on that of the caller, at once, if it has none.

    lock: that of the chunks. Callers of `begin` and `wait` have it, and `wait` lets others have it.
    """

    def __init__(self, lock: RLock, num_threads: int) -> None:
        self._moved = Condition(lock)
        self.has_threads = num_threads > 0
        if self.has_threads:
            self._movers = ThreadPoolExecutor(num_threads, "chunks")
            self._ahead = ThreadPoolExecutor(1, "chunks ahead")

    def begin(self, move: Callable[[Chunk], None], chunk: Chunk) -> None:
        """Starts to seal or open a chunk. Its `error` says later what went wrong."""
        chunk.is_moving = True
        if self.has_threads:
            self._movers.submit(self._run, move, chunk)
        else:
            self._run(move, chunk)

    def wait(self, chunk: Chunk) -> None:
        """Waits until a chunk is not on its way."""
        while chunk.is_moving:
            self._moved.wait()

    def later(self, task: Callable[..., None], *args: Any) -> None:
        """Runs a task on a thread, after those of earlier calls; it may begin and wait."""
        self._ahead.submit(task, *args)

    def close(self) -> None:
        """Ends all threads, after what they have begun. The caller does not have the lock."""
        if self.has_threads:
            self._ahead.shutdown()
            self._movers.shutdown()

    def _run(self, move: Callable[[Chunk], None], chunk: Chunk) -> None:
        error = None
        try:
            move(chunk)
        except BaseException as raised:
            error = raised
        with self._moved:
            chunk.is_moving, chunk.error = False, error
            self._moved.notify_all()


def raise_error(chunks: Sequence[Chunk]) -> None:
    """Raises what went wrong when chunks were moved: the error of the first that has one.

    The others are forgotten. Who uses such a chunk later moves it again.
    """
    errors = [chunk.error for chunk in chunks if chunk.error]
    for chunk in chunks:
        chunk.error = None
    if errors:
        raise errors[0]
