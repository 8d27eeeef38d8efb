"""By how much a process grows, as the kernel measures it."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager


def bytes_of(name: str) -> int:
    """A size of this process, in bytes."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith(name))


@contextmanager
def growth() -> Iterator[Callable[[], int]]:
    """Yields what tells by how many bytes the process has grown at most since the beginning.

    Code that is loaded meanwhile, pages of files, does not count.
    """
    gc.collect()
    with open("/proc/self/clear_refs", "w") as marks:
        marks.write("5")  # the peak is the present size now
    before, code = bytes_of("VmRSS"), bytes_of("RssFile")
    yield lambda: bytes_of("VmHWM") - before - (bytes_of("RssFile") - code)
