"""Keys in memory: kept out of core dumps and swap, and overwritten after use, as far as possible.

NOTE [best effort] Python copies bytes as it likes, and libraries keep copies of their own: what is
locked and overwritten here are the keys of a session and what they are made of, not every trace of
them. Text, such as a passphrase, cannot be overwritten. Where the system has no such calls, or does
not permit them, nothing happens.
"""

from __future__ import annotations

import ctypes
import sys
from contextlib import suppress
from functools import cache
from typing import TypeVar

Secret = TypeVar("Secret", bytes, bytearray)
_PR_SET_DUMPABLE = 4


def protect_process() -> None:
    """Lets this process leave no core dump, and on Linux be read by no other of the same user."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            _libc().prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def lock(secret: Secret) -> Secret:
    """Keeps the memory of a secret from being swapped out, and returns the secret."""
    with suppress(OSError, AttributeError):
        _libc().mlock(ctypes.c_void_p(address_of(secret)), ctypes.c_size_t(len(secret)))
    return secret


def wipe(*secrets: bytes | bytearray) -> None:
    """Overwrites secrets with zeros; nobody may use them afterwards.

    Also `bytes`, which Python would not change: they must be the caller's own, made at run time.
    """
    for secret in secrets:
        if len(secret) > 1:  # Python shares the shorter ones
            ctypes.memset(address_of(secret), 0, len(secret))


def address_of(secret: bytes | bytearray) -> int:
    """Returns where the content of a secret begins in memory."""
    if isinstance(secret, bytes):
        return ctypes.cast(ctypes.c_char_p(secret), ctypes.c_void_p).value or 0
    return ctypes.addressof((ctypes.c_char * len(secret)).from_buffer(secret))


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
