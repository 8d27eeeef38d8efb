"""Ports for parties on this machine that nothing else takes between the choice and the use.

They lie below the range from which the system takes the ports of outgoing connections, and a lock
file keeps other test processes away from a block of them until this process ends.
"""

from __future__ import annotations

import fcntl
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import SystemRandom
from typing import IO

FIRST, LAST, BLOCK = 20_000, 32_000, 200


def free_ports(count: int) -> list[int]:
    """Returns consecutive free ports of 127.0.0.1 that were never returned before."""
    found: list[int] = []
    for port in _ports:
        if not _is_free(port):
            continue
        if found and port != found[-1] + 1:
            found.clear()
        found.append(port)
        if len(found) == count:
            return found
    raise OSError("no block of ports is free")


def _claimed_ports() -> Iterator[int]:
    """The ports of blocks that this process claims, one after another."""
    blocks = list(range(FIRST, LAST, BLOCK))
    SystemRandom().shuffle(blocks)
    for first in blocks:
        file = (Path(tempfile.gettempdir()) / f"tacit-test-ports-{first}.lock").open("w")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            continue
        _locked.append(file)
        yield from range(first, first + BLOCK)


_locked: list[IO[str]] = []  # open, so that they stay locked until this process ends
_ports = _claimed_ports()


def _is_free(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True
