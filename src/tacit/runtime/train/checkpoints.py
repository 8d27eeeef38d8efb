"""One party's checkpoints of a training: one folder per checkpoint, and their key."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree

from ...crypto import make_private_folder
from ...errors import CheckpointRejected
from ...fixedpoint import Numbers
from ...nn.checkpoint_file import checkpoint_file, read_identity
from ...nn.encrypted_file import Key, key_in_file

KEY_FILE = "checkpoint.key"
PATTERN = "step-*"


@dataclass(frozen=True)
class StoredCheckpoint:
    """A checkpoint of this party: its identity, its step, and its folder."""

    id: str
    step: int
    folder: Path


class CheckpointFolder:
    """The checkpoints in a folder that only this party uses."""

    def __init__(self, folder: Path, n: Numbers) -> None:
        self.folder, self.rank = folder, n.protocol.rank
        self._n = n
        self._taken: set[str] = set()

    def scan(self) -> tuple[list[StoredCheckpoint], list[CheckpointRejected]]:
        """Returns the usable checkpoints, and errors that say which others cannot be used and why.

        Deletes files that were left half written. May raise OSError.
        """
        make_private_folder(self.folder)
        usable, rejected = list[StoredCheckpoint](), list[CheckpointRejected]()
        names = sorted(entry.name for entry in os.scandir(self.folder) if entry.is_dir())
        for folder in (self.folder / name for name in names if Path(name).match(PATTERN)):
            path = checkpoint_file(folder, self.rank)
            for draft in folder.glob(f".{path.name}.*"):  # left by a party that ended while writing
                draft.unlink()
            if not path.exists():
                continue
            self._taken.add(folder.name)
            try:
                usable.append(StoredCheckpoint(*read_identity(self._n, path), folder))
            except CheckpointRejected as error:
                rejected.append(error.about(str(path.relative_to(self.folder))))
        return usable, rejected

    def new_folder(self, step: int) -> Path:
        """Returns an unused folder for a checkpoint of this step."""
        name = first = f"step-{step:08}"
        again = 1
        while name in self._taken:
            again += 1
            name = f"{first}-{again}"
        self._taken.add(name)
        return self.folder / name

    def keep_only(self, folders: list[Path]) -> None:
        """Deletes all checkpoints but these; one that cannot be deleted stays."""
        for folder in self.folder.glob(PATTERN):
            if folder not in folders:
                rmtree(folder, ignore_errors=True)

    def key(self, *, create: bool) -> Key:
        """Returns the key in the folder; creates it if `create` is set. May raise OSError."""
        return key_in_file(self.folder / KEY_FILE, create=create)
