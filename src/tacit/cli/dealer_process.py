"""The dealer that the first party's machine runs beside its party."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from .options import VARIABLE

if TYPE_CHECKING:
    from ..runtime.deploy.party_file import PartyFile

END_SECONDS = 5.0  # for the dealer to end by itself after its party


@contextmanager
def dealing_beside(
    file: PartyFile, party: str, command: Sequence[str | Path], *, passphrase: str | None
) -> Iterator[None]:
    """Within, a process runs the dealer by this command of `tacit`, if the party file says so.

    That is so at the first party with dealer="insecure-first-party"; elsewhere it does nothing. The
    errors of the process go to stderr, and nothing to stdout.
    """
    if not file.is_dealt_by_first or party != file.parties[0].name:
        yield
        return
    process = subprocess.Popen(
        [sys.executable, "-m", "tacit", *map(str, command)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        env={**os.environ, **({VARIABLE: passphrase} if passphrase else {})},
    )
    try:
        yield
        with suppress(subprocess.TimeoutExpired):
            process.wait(END_SECONDS)
    finally:
        process.kill()
        process.wait()
