"""The list of stored runs that a party has used: written before the first message of a run.

NOTE [single use] A mask that hides two messages shows their difference, so no stored run may be
used twice, whatever happens in between. A party adds the run to its ledger, and flushes the ledger
and its folder to the disk, before it sends a message that depends on the run. A crash before that
leaves a run that nobody has used; a crash after it, a run that this party refuses. The file of a
run is overwritten and deleted when its session ends; what a crash leaves of it is deleted later. A
file that comes back, from a backup for example, is refused because the ledger has it. A party whose
ledger was lost is stopped by the others: a run is used by all parties, and each has its own ledger.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from ...errors import PreprocessingRejected

NAME = "used"


class Ledger:
    """The identities of used runs, one on each line of a file that only grows."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME

    def is_used(self, run: str) -> bool:
        """Returns whether a run may have been used."""
        return _holds(self._content(), run)

    def add(self, run: str) -> None:
        """Marks a run as used, for good; raises PreprocessingRejected if it is marked already.

        Two processes that want the same run wait for each other here, and one of them gets it.
        """
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            content = self._content()
            if _holds(content, run):
                raise PreprocessingRejected(
                    f"the stored run {run} was used before",
                    limit="each is used once",
                    told="its stored run was used before",
                )
            start = b"" if not content or content.endswith(b"\n") else b"\n"
            line = start + run.encode() + b"\n"
            if os.write(descriptor, line) != len(line):
                raise PreprocessingRejected(
                    f"{self._path} cannot be written: no space is left",
                    told="its list of used runs cannot be written",
                )
            os.fsync(descriptor)
            flush_folder(self._path.parent)
        finally:
            os.close(descriptor)

    def _content(self) -> bytes:
        try:
            return self._path.read_bytes()
        except FileNotFoundError:
            return b""


def _holds(content: bytes, run: str) -> bool:
    """Whether a run is in a ledger; a line that a crash has cut counts for all that it may be."""
    *lines, rest = content.split(b"\n")
    name = run.encode()
    return name in lines or (bool(rest) and name.startswith(rest))


def flush_folder(folder: Path) -> None:
    """Waits until the names in a folder are on the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
