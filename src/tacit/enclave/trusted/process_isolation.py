"""What the process of an enclave does first: it cuts itself off from the machine, as far as it may.

It runs before torch is imported, while the process has one thread: a user namespace needs that. So
nothing is imported here but the standard library and the messages.
"""

from __future__ import annotations

import ctypes
import os
import resource
import sys

from ..edl import Protection

_PR_SET_DUMPABLE, _PR_GET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 4, 3, 38
_CLONE_NEWUTS, _CLONE_NEWIPC, _CLONE_NEWUSER, _CLONE_NEWNET = 1 << 26, 1 << 27, 1 << 28, 1 << 30
_MCL_ALL_ON_FAULT = 1 | 2 | 4  # now and later, each page when it is first used
_STANDARD = {0, 1, 2}


def isolate(descriptor: int) -> Protection:
    """Closes everything but one socket, and returns the protections that the system grants.

    Standard input, output and error lead nowhere. The network and the other processes' messages
    are out of reach in namespaces of its own; memory is not swapped out and not dumped.
    """
    granted = Protection(0)
    libc = ctypes.CDLL(None, use_errno=True)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    granted |= Protection.NO_CORE_DUMP
    if sys.platform != "linux":
        return granted
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0:
        granted |= Protection.NO_NEW_PRIVILEGES
    granted |= _lock_memory(libc)
    granted |= _enter_namespaces(libc)
    libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    if libc.prctl(_PR_GET_DUMPABLE, 0, 0, 0, 0) == 0:
        granted |= Protection.NOT_DUMPABLE
    if open_descriptors() <= _STANDARD | {descriptor}:
        granted |= Protection.ONE_DESCRIPTOR
    return granted


def open_descriptors() -> set[int]:
    """Returns the descriptors of this process, without the one that lists them."""
    listed = [int(name) for name in os.listdir("/proc/self/fd")]
    return {number for number in listed if _is_open(number)}


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def _lock_memory(libc: ctypes.CDLL) -> Protection:
    """Locks all memory. Under a limit nothing is locked: allocations beyond it would fail."""
    try:
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (resource.RLIM_INFINITY,) * 2)
    except (ValueError, OSError):
        if resource.getrlimit(resource.RLIMIT_MEMLOCK)[0] != resource.RLIM_INFINITY:
            return Protection(0)
    locked = libc.mlockall(_MCL_ALL_ON_FAULT) == 0
    return Protection.LOCKED_MEMORY if locked else Protection(0)


def _enter_namespaces(libc: ctypes.CDLL) -> Protection:
    """Enters a user namespace without any rights outside, and in it a network of nobody."""
    if libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET | _CLONE_NEWIPC | _CLONE_NEWUTS) == 0:
        return Protection.OWN_USER_NAMESPACE | Protection.OWN_NETWORK_NAMESPACE
    if libc.unshare(_CLONE_NEWNET) == 0:
        return Protection.OWN_NETWORK_NAMESPACE
    return Protection(0)
