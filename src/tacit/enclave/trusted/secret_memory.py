"""Memory for keys that the kernel maps for this process alone (memfd_secret), where there is such.

Not even the kernel's own view of the machine's memory contains it: it is not swapped out, and other
processes, a debugger or /proc/PID/mem do not reach it. Without it, keys lie in locked memory.
Libraries still keep copies of their own while they use a key.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import sys

from ...crypto import lock

_MEMFD_SECRET = 447  # on every architecture of Linux that has it
_ARCHITECTURES = {"x86_64", "aarch64"}


def secret_copy(secret: bytes) -> memoryview:
    """Returns a copy of a secret in secret memory, or else in locked memory."""
    pages = _secret_pages(len(secret))
    copy = memoryview(lock(bytearray(len(secret)))) if pages is None else memoryview(pages)
    copy[: len(secret)] = secret
    return copy[: len(secret)]


def has_secret_memory() -> bool:
    """Whether the system grants secret memory."""
    return _secret_pages(1) is not None


def _secret_pages(size: int) -> mmap.mmap | None:
    if sys.platform != "linux" or platform.machine() not in _ARCHITECTURES:
        return None
    descriptor = ctypes.CDLL(None, use_errno=True).syscall(_MEMFD_SECRET, 0)
    if descriptor < 0:
        return None
    try:
        os.ftruncate(descriptor, size)
        return mmap.mmap(descriptor, size)
    except OSError:  # beyond the limit of locked memory
        return None
    finally:
        os.close(descriptor)
