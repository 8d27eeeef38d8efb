"""Memory by its address, and pages of it that go back to the system."""

from __future__ import annotations

import ctypes
import mmap

PAGE = mmap.PAGESIZE
_DONTNEED, _DONTNEED_LOCKED = 4, 24  # the second also for locked pages, from Linux 5.18 on
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of glibc's mallopt
_PR_SET_THP_DISABLE = 41
LARGE_BYTES = 1 << 16  # freed blocks of so many bytes go back to the system at once

_libc = ctypes.CDLL(None, use_errno=True)


def view(address: int, size: int) -> memoryview:
    """Returns the bytes at an address; the caller keeps their owner alive."""
    return memoryview((ctypes.c_char * size).from_address(address)).cast("B")


def erase(address: int, size: int) -> None:
    """Overwrites memory with zeros; the pages that lie wholly in it go back to the system."""
    first, last = -(-address // PAGE) * PAGE, (address + size) // PAGE * PAGE
    if first >= last or not _given_back(first, last - first):
        ctypes.memset(address, 0, size)
        return
    ctypes.memset(address, 0, first - address)
    ctypes.memset(last, 0, address + size - last)


def return_unused_memory() -> None:
    """Makes the memory that this process takes that which it uses, up to small blocks.

    glibc keeps freed blocks otherwise, larger ones after a large one was freed; and Linux gives
    2 MiB (a huge page) to whoever uses a byte of them.
    """
    if hasattr(_libc, "mallopt"):
        for setting in (_TRIM_THRESHOLD, _MMAP_THRESHOLD):
            _libc.mallopt(setting, LARGE_BYTES)
    _libc.prctl(_PR_SET_THP_DISABLE, 1, 0, 0, 0)


def _given_back(address: int, size: int) -> bool:
    """Whether the system took the pages; they read as zeros then."""
    where = ctypes.c_void_p(address), ctypes.c_size_t(size)
    return any(_libc.madvise(*where, advice) == 0 for advice in (_DONTNEED_LOCKED, _DONTNEED))
