"""How much memory a process holds, over time, in bounded memory."""

from __future__ import annotations

import os
import resource
import sys

MOST_SAMPLES = 512
EVERY = 0.1  # s, at first
_PAGE = os.sysconf("SC_PAGE_SIZE")
_UNIT = 1 if sys.platform == "darwin" else 1024  # of what getrusage counts in


class MemorySamples:
    """Samples (seconds, bytes) of the memory that this process holds, taken when it is asked to.

    With too many samples every second one is dropped, and later ones are half as frequent.
    """

    def __init__(self) -> None:
        self.samples: list[tuple[float, int]] = []
        self.next = 0.0  # when the next sample is due
        self._every = EVERY
        self._highest_before = _highest()

    def take(self, now: float) -> None:
        """Takes a sample."""
        self.samples.append((now, _resident()))
        if len(self.samples) >= MOST_SAMPLES:
            del self.samples[1::2]
            self._every *= 2
        self.next = now + self._every

    @property
    def peak(self) -> int:
        """The most memory since the first sample: exact if the process never held more before."""
        highest = _highest()
        if highest > self._highest_before:
            return highest
        return max((size for _, size in self.samples), default=highest)


def _highest() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _UNIT


def _resident() -> int:
    """Returns the memory that this process holds; where that is not told, the most so far."""
    try:
        file = os.open("/proc/self/statm", os.O_RDONLY)
    except OSError:
        return _highest()
    try:
        return int(os.read(file, 128).split()[1]) * _PAGE
    finally:
        os.close(file)
