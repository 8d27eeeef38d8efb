"""The key of Triton's library, which is part of the name of everything in its cache, kept on disk.

Triton computes it in each process from all of its files, some hundred MB: most of a second before
the first kernel can be taken from the cache. Here a process takes the key that another one has
computed, if each file still has the size and the time of its last change that it had then. Triton's
own pool of compilers gives the key to its processes in the same way.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

import triton
from triton.runtime import cache

from .specifications import folder


@lru_cache(maxsize=1)
def keep_library_key() -> None:
    """Makes Triton's key known to this process, from the disk if a process before has put it there.

    One thread at a time.
    """
    file = folder() / f"library-{_state().hexdigest()}"
    key = _read(file)
    if not key:
        key = cache.triton_key()
        _write(file, key)
    cache.triton_key = lambda: key


def _read(file: Path) -> str:
    """Returns what a file holds; nothing if there is none, or no text in it."""
    with suppress(OSError, UnicodeDecodeError):
        return file.read_text()
    return ""


def _state() -> hashlib._Hash:
    """Returns a digest of names, sizes and times of the files that make Triton's library."""
    found = hashlib.sha256(f"{triton.__version__} {cache.__file__}".encode())
    for path, entry in _files(Path(triton.__file__).parent):
        found.update(f"{path} {entry.st_size} {entry.st_mtime_ns}\n".encode())
    return found


def _files(root: Path) -> Iterator[tuple[str, os.stat_result]]:
    for place, folders, names in os.walk(root, followlinks=True):  # a build in its own folder
        folders[:] = sorted(one for one in folders if one != "__pycache__")
        for path in (os.path.join(place, name) for name in sorted(names)):
            if os.path.exists(path):  # no link to nothing
                yield path, os.stat(path)


def _write(file: Path, key: str) -> None:
    """Writes the key; other processes see all of it or nothing."""
    made = file.with_suffix(f".{os.getpid()}")
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        made.write_text(key)
        made.replace(file)
