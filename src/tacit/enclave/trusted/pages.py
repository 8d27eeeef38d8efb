"""Memory by its address, and pages of it that go back to the system."""

from __future__ import annotations

import ctypes
import mmap

PAGE = mmap.PAGESIZE
_DONTNEED, _DONTNEED_LOCKED = 4, 24  # the second also for locked pages, from Linux 5.18 on

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


def _given_back(address: int, size: int) -> bool:
    """Whether the system took the pages; they read as zeros then."""
    where = ctypes.c_void_p(address), ctypes.c_size_t(size)
    return any(_libc.madvise(*where, advice) == 0 for advice in (_DONTNEED_LOCKED, _DONTNEED))
