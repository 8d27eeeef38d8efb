"""Keys in memory: kept out of core dumps and swap, and overwritten after use, as far as possible.

NOTE [best effort] Python copies bytes as it likes, and libraries keep copies of their own: what is
locked and overwritten here are the long-lived keys of a session, not every trace of them. Where the
system has no such calls, or does not permit them, nothing happens.
"""

from __future__ import annotations

import ctypes
import sys
from contextlib import suppress
from functools import cache

_PR_SET_DUMPABLE = 4


def protect_process() -> None:
    """Lets this process leave no core dump, and on Linux be read by no other of the same user."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            _libc().prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def locked(secret: bytes) -> bytearray:
    """Returns a copy of a secret in memory that is not swapped out, for `wipe`."""
    copy = bytearray(secret)
    with suppress(OSError, AttributeError):
        _libc().mlock(ctypes.c_void_p(_address(copy)), ctypes.c_size_t(len(copy)))
    return copy


def wipe(secret: bytearray) -> None:
    """Overwrites a secret with zeros; nobody may use it afterwards."""
    if secret:
        ctypes.memset(_address(secret), 0, len(secret))


def _address(buffer: bytearray) -> int:
    return ctypes.addressof((ctypes.c_char * len(buffer)).from_buffer(buffer))


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
