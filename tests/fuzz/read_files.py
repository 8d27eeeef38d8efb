"""Reads malformed data files, in a process of limited memory, and reports what came of each.

python -m tests.fuzz.read_files FOLDER SEED COUNT
"""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path

from tacit.runtime.files.contents import Budget, FileRejected, Options
from tacit.runtime.files.reading import read

from .mutate import mutations

ROOM = 1 << 29  # bytes of address space beyond what the process has after a first round
LIMIT = 1 << 26  # of `session.load`


def attempt(path: Path) -> dict[str, object]:
    started = time.perf_counter()
    try:
        read(path, Options(Budget(LIMIT)))
        came = {"error": "", "message": ""}
    except FileRejected as refusal:
        came = {"error": "FileRejected", "message": refusal.reason}
    except BaseException as error:
        came = {"error": type(error).__name__, "message": str(error)}
    return {**came, "seconds": time.perf_counter() - started}


def limit_memory() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    room = pages * resource.getpagesize() + ROOM
    resource.setrlimit(resource.RLIMIT_AS, (room, room))


def spoil(valid: Path, data: bytes) -> Path:
    """The path to read with the data in the place of the file; of a folder, of one picture."""
    if valid.is_dir():
        [victim] = valid.glob("*/victim.*")
        victim.write_bytes(data)
        return valid
    path = valid.with_name(f"spoilt-{valid.name}")
    path.write_bytes(data)
    return path


def main(folder: str, seed: str, count: str) -> None:
    files = sorted(Path(folder).iterdir())
    for valid in files:  # every library is imported
        assert attempt(valid)["error"] == "", attempt(valid)
    limit_memory()
    for number, valid in enumerate(files):
        [source] = valid.glob("*/victim.*") if valid.is_dir() else [valid]
        original = source.read_bytes()
        for done, data in mutations(original, seed=int(seed) + number, count=int(count)):
            case = {"file": valid.name, "mutation": done}
            print(json.dumps(case), flush=True)  # so that a crash tells its cause
            print(json.dumps({**case, **attempt(spoil(valid, data))}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
