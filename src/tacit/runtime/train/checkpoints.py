"""One party's checkpoints of a training: a folder for each, and the key that they take."""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree

from ...errors import CheckpointRejected
from ...fixedpoint import Numbers
from ...nn.checkpoint_file import checkpoint_file, read_identity
from ...nn.encrypted_file import KEY_BYTES, Key, put_in_place

KEY_FILE = "checkpoint.key"
PATTERN = "step-*"


@dataclass(frozen=True)
class Kept:
    """A checkpoint of this party: its identity, its step, and the folder it lies in."""

    id: str
    step: int
    folder: Path


class Shelf:
    """The checkpoints in a folder that belongs to this party alone."""

    def __init__(self, folder: Path, n: Numbers) -> None:
        self.folder, self.rank = folder, n.protocol.rank
        self._n = n
        self._taken: set[str] = set()

    def look(self) -> tuple[list[Kept], list[str]]:
        """What is there, and what of it cannot be used, each with the reason. May raise OSError.

        What was left half written goes away.
        """
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        kept, refused = [], []
        names = sorted(entry.name for entry in os.scandir(self.folder) if entry.is_dir())
        for folder in (self.folder / name for name in names if Path(name).match(PATTERN)):
            path = checkpoint_file(folder, self.rank)
            for draft in folder.glob(f".{path.name}.*"):  # a party ended while it wrote
                draft.unlink()
            if not path.exists():
                continue
            self._taken.add(folder.name)
            try:
                kept.append(Kept(*read_identity(self._n, path), folder))
            except CheckpointRejected as error:
                refused.append(f"{path.relative_to(self.folder)}: {error}")
        return kept, refused

    def free(self, step: int) -> Path:
        """A folder for a checkpoint of this step, that none had before."""
        name = first = f"step-{step:08}"
        again = 1
        while name in self._taken:
            again += 1
            name = f"{first}-{again}"
        self._taken.add(name)
        return self.folder / name

    def keep_only(self, folders: list[Path]) -> None:
        """Removes all checkpoints but these; one that cannot be removed stays."""
        for folder in self.folder.glob(PATTERN):
            if folder not in folders:
                rmtree(folder, ignore_errors=True)

    def key(self, *, make: bool) -> Key:
        """The key in the folder, made of 32 random bytes on first use. May raise OSError."""
        path = self.folder / KEY_FILE
        if not path.exists():
            if not make:
                raise CheckpointRejected(
                    f"{path} is missing, which its checkpoints were saved with"
                )
            temporary = path.with_name(f".{KEY_FILE}.{secrets.token_hex(8)}")
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(secrets.token_bytes(KEY_BYTES))
                file.flush()
                os.fsync(file.fileno())
            put_in_place(temporary, path)
        if path.stat().st_mode & 0o077:
            raise CheckpointRejected(f"{path} can be read by others", remedy="chmod 600 it")
        key = path.read_bytes()
        if len(key) != KEY_BYTES:
            raise CheckpointRejected(f"{path} is not a key of {KEY_BYTES} bytes")
        return key
