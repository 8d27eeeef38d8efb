"""Folders and files that only their owner may read: shares, keys, records, revealed numbers."""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any, Literal

LOG = logging.getLogger("tacit")
OTHERS = 0o077  # the rights of everybody but the owner


def make_private_folder(path: Path) -> None:
    """Makes a folder that only its owner may enter (0700). Tells if others may enter an old one."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    if path.stat().st_mode & OTHERS:
        with _telling:
            _tell(path)


def open_private(path: Path, mode: Literal["a", "w"], **options: Any) -> Any:
    """Opens a text file that only its owner may read (0600), also if it was made wider."""
    end = os.O_APPEND if mode == "a" else os.O_TRUNC
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | end, 0o600)
    if os.fstat(descriptor).st_mode & OTHERS:
        with suppress(OSError):  # of another user
            os.fchmod(descriptor, 0o600)
    return os.fdopen(descriptor, mode, **options)


_telling = Lock()  # parties may be threads of one process


@cache  # once for each folder
def _tell(path: Path) -> None:
    LOG.warning("others than its owner may look into %s: chmod 700 it", path)
