"""Every test of the transport gives back its threads and its file descriptors."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator

import pytest


def _held() -> tuple[set[threading.Thread], int]:
    return set(threading.enumerate()), len(os.listdir("/proc/self/fd"))


@pytest.fixture(autouse=True)
def _no_leaks() -> Iterator[None]:
    threads, fds = _held()
    yield
    until = time.monotonic() + 2
    while time.monotonic() < until and (_held()[0] - threads or _held()[1] > fds):
        time.sleep(0.02)
    assert not _held()[0] - threads
    assert _held()[1] <= fds
