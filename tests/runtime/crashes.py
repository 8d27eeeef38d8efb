"""Crashes at every point of making and using stored runs, and whether a run is used twice.

    python crashes.py MASTER ACTION MODE POINTS

runs an action once for each of the points (a JSON list), in a process that ends there, on a copy of
the folder MASTER. A point is the number of a boundary: before and after each write, flush, rename
and deletion of a file, and each message. MODE is what is lost: "process" nothing that was written,
"power" everything that was not flushed to the disk, "party" one party raises and all clean up.
Then the program runs again, without a crash. Prints a JSON object for each point.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from tests.runtime import stored_programs as programs

import tacit
from tacit.errors import PartyFailed
from tacit.runtime.launch import program as launched
from tacit.runtime.preprocessing import ledger
from tacit.transport.local.memory import MemoryChannel

SETTINGS = {"parties": 2, "protocol": "additive", "deadline": 60.0}
ACTIONS: dict[str, Callable[[Path], Any]] = {
    "use": lambda folder: tacit.run(programs.layer, preprocessed=folder, **SETTINGS),
    "make": lambda folder: tacit.preprocess(programs.layer, folder=folder, runs=2, **SETTINGS),
}
CRASHED, REFUSED = 99, 98


class PartyCrash(BaseException):
    """The crash of one party."""


class Disk:
    """What a loss of power leaves of a folder: files as they were flushed, under flushed names."""

    def __init__(self, folder: Path) -> None:
        self.folders = [path for path in (folder, *folder.rglob("*")) if path.is_dir()]
        self.contents: dict[int, bytes] = {}
        self.names: dict[Path, dict[str, int]] = {}
        for path in folder.rglob("*"):
            if path.is_file():
                self.contents[path.stat().st_ino] = path.read_bytes()
        for path in self.folders:
            self._flush_names(path)

    def flushed(self, descriptor: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        if path.is_dir():
            self._flush_names(path)
        else:
            with open(f"/proc/self/fd/{descriptor}", "rb") as file:
                self.contents[os.fstat(descriptor).st_ino] = file.read()

    def _flush_names(self, folder: Path) -> None:
        files = [path for path in folder.iterdir() if path.is_file()]
        self.names[folder] = {path.name: path.stat().st_ino for path in files}

    def fall_back(self) -> None:
        for folder, names in self.names.items():
            for path in folder.iterdir():
                if path.is_file():
                    path.unlink()
            for name, inode in names.items():
                (folder / name).write_bytes(self.contents.get(inode, b""))
                (folder / name).chmod(0o600)


class Boundaries:
    """Counts boundaries, and ends the process at one of them."""

    def __init__(self, folder: Path, log: Path, point: int | None, mode: str) -> None:
        self._point, self._mode, self._log = point, mode, log
        self._lock, self._count = threading.RLock(), 0
        self.disk = Disk(folder)
        self.run_of: dict[int, str] = {}  # the stored run that a party uses, by rank

    def reach(self) -> None:
        with self._lock:  # that the crash keeps: no other thread passes a boundary
            self._count += 1
            if self._count == self._point:
                self._crash()

    def _crash(self) -> NoReturn:
        if self._mode == "party":
            raise PartyCrash
        if self._mode == "power":
            self.disk.fall_back()
        os._exit(CRASHED)

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            self.reach()
            made = function(*args, **kwargs)
            self.reach()
            return made

        return wrapped

    def note(self, rank: int) -> None:
        """Logs that a party sends a message that depends on its run."""
        if run := self.run_of.get(rank):
            with self._lock, self._log.open("a") as log:
                log.write(f"{rank} {run}\n")

    def install(self) -> None:
        fsync, send, attach = os.fsync, MemoryChannel.send, launched.attach

        def flush(descriptor: int) -> None:
            self.reach()
            with self._lock:
                fsync(descriptor)
                self.disk.flushed(descriptor)
            self.reach()

        def sending(channel: Any, *args: Any) -> int:
            self.reach()
            self.note(channel._party)
            size = send(channel, *args)
            self.reach()
            return size

        def attaching(mesh: Any, run: Any) -> None:
            self.run_of[mesh.rank] = run.header.id
            attach(mesh, run)

        for name in ("write", "replace", "unlink", "open"):
            setattr(os, name, self.around(getattr(os, name)))
        os.fsync = flush
        MemoryChannel.send = sending
        launched.attach = attaching

    @property
    def count(self) -> int:
        return self._count


def in_child(folder: Path, action: str, point: int | None, mode: str) -> tuple[int, set[str]]:
    """Returns how a process ended that runs an action, and the runs that parties sent under."""
    log = folder.with_suffix(".log")
    log.write_text("")
    child = os.fork()
    if child == 0:
        code = 1
        try:
            boundaries = Boundaries(folder, log, point, mode)
            boundaries.install()
            ACTIONS[action](folder)
            code = 0
        except PartyFailed as error:
            code = CRASHED if "PartyCrash" in str(error) else 1
            code = REFUSED if error.kind == "PreprocessingRejected" else code
            if code == 1:
                print(error, file=sys.stderr)
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status), set(log.read_text().splitlines())


def points_of(folder: Path, action: str) -> int:
    """Returns how many boundaries an action has, about: parties run side by side."""
    boundaries = Boundaries(folder, folder.with_suffix(".log"), None, "process")
    before = {name: getattr(os, name) for name in ("write", "replace", "unlink", "open", "fsync")}
    send, attach = MemoryChannel.send, launched.attach
    boundaries.install()
    try:
        ACTIONS[action](folder)
    finally:
        for name, function in before.items():
            setattr(os, name, function)
        MemoryChannel.send, launched.attach = send, attach
    return boundaries.count


def main(master: Path, action: str, mode: str, points: list[int]) -> None:
    warm = master.with_name(f"{action}-{mode}-warm")
    shutil.copytree(master, warm)
    ACTIONS["use"](warm)  # imports what the children need
    shutil.rmtree(warm)
    for point in points:
        folder = master.with_name(f"{action}-{mode}-{point}")
        shutil.copytree(master, folder)
        crashed, first = in_child(folder, action, point, mode)
        again, second = in_child(folder, "use", None, mode)
        kept = [str(path) for path in folder.rglob("*") if path.name == ledger.NAME]
        shutil.rmtree(folder)
        twice = sorted(first & second)
        found = {"point": point, "crashed": crashed, "again": again, "twice": twice}
        print(json.dumps(found | {"sent": len(first), "ledgers": len(kept)}), flush=True)


if __name__ == "__main__":
    folder, action, mode, points = sys.argv[1:]
    main(Path(folder), action, mode, json.loads(points))
