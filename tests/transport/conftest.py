"""Every test of the transport gives back its threads and its file descriptors."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import pytest

from tacit.testing import until
from tacit.transport import root_cause


def _held() -> tuple[set[threading.Thread], int]:
    return set(threading.enumerate()), len(os.listdir("/proc/self/fd"))


@pytest.fixture(autouse=True)
def _no_leaks() -> Iterator[None]:
    threads, fds = _held()
    yield
    until(lambda: not _held()[0] - threads and _held()[1] <= fds, seconds=20.0)


@pytest.fixture(autouse=True)
def _answers_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A party that was accused of silence answers, however slow the machine is."""
    monkeypatch.setattr(root_cause, "_ANSWER_SECONDS", 30.0)
    monkeypatch.setattr(root_cause, "_LAST_WORD_SECONDS", 30.0)
