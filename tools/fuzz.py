"""A fuzzer that is guided by coverage, for everything that reads bytes of others.

    python -m tools.fuzz frames --seconds 600         # or party-files, checkpoints, data-files
    python -m tools.fuzz frames --seconds 60 --keep   # keeps inputs that reach new lines

It changes inputs of the corpus at random, keeps those that reach a new pair of lines of Tacit, and
goes on from these. A reader may return or raise an error of Tacit; anything else is a finding,
which is written to the current folder. tests/fuzz/test_corpus.py replays the corpus.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from types import FrameType
from typing import Any

import tacit
from tacit.errors import Error
from tacit.nn.encrypted_file import read_body, read_header
from tacit.runtime.deploy.party_file import read_party_file
from tacit.runtime.files.contents import Budget, FileRejected, Options
from tacit.runtime.files.reading import read
from tacit.transport.wire.control import decode
from tacit.transport.wire.frames import HEADER, parse_header, parse_table

CORPUS = Path(__file__).parents[1] / "tests" / "fuzz" / "corpus"
PACKAGE = str(Path(tacit.__file__).parent)
KEY = bytes(range(32))
SESSION = bytes(16)
MOST_BYTES = 1 << 14  # of an input
LIMIT = 1 << 20  # bytes of a data file's tensors
INTERESTING = (0, 1, 15, 16, 127, 128, 255)


def frames(data: bytes, _: Path) -> None:
    """A header and the table behind it, and the same bytes as a last word."""
    decode(data, SESSION)
    header = parse_header(data[: HEADER.size])
    parse_table(data[HEADER.size :][: header.table_bytes], header.tensors)


def party_files(data: bytes, folder: Path) -> None:
    path = folder / "parties.toml"
    path.write_bytes(data)
    read_party_file(path)


def checkpoints(data: bytes, _: Path) -> None:
    file = BytesIO(data)
    header, binding = read_header(file)
    read_body(file, header, binding, KEY)


def data_files(data: bytes, folder: Path) -> None:
    """The first line is the suffix of the file."""
    suffix, _, content = data.partition(b"\n")
    known = suffix.decode("latin-1")
    if known not in (".npy", ".npz", ".csv", ".idx", ".idx.gz", ".safetensors", ".parquet"):
        return
    path = folder / f"data{known}"
    path.write_bytes(content)
    read(path, Options(Budget(LIMIT)))


Target = Callable[[bytes, Path], None]
TARGETS: dict[str, Target] = {
    "frames": frames,
    "party-files": party_files,
    "checkpoints": checkpoints,
    "data-files": data_files,
}


def outcome(target: Target, data: bytes, folder: Path) -> BaseException | None:
    """Runs a reader; returns what it raises unless that is an error of Tacit."""
    try:
        target(data, folder)
    except (Error, FileRejected):
        return None
    except Exception as error:
        return error
    return None


def covered(target: Target, data: bytes, folder: Path) -> tuple[set[Any], BaseException | None]:
    """Returns the pairs of lines of Tacit that ran one after another, and the outcome."""
    seen: set[Any] = set()

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if event == "call" and not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        last = 0

        def lines(frame: FrameType, event: str, _: Any) -> Any:
            nonlocal last
            if event == "line":
                seen.add((frame.f_code, last, frame.f_lineno))
                last = frame.f_lineno
            return lines

        return lines

    sys.settrace(trace)
    try:
        error = outcome(target, data, folder)
    finally:
        sys.settrace(None)
    return seen, error


def changed(data: bytes, other: bytes, chance: random.Random) -> bytes:
    """Returns an input with some random changes."""
    made = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 4, 8))):
        place = chance.randrange(len(made) + 1)
        size = chance.choice((1, 1, 2, 4, 8, 16))
        match chance.randrange(6):
            case 0 if place < len(made):
                made[place] ^= 1 << chance.randrange(8)
            case 1 if place < len(made):
                made[place] = chance.choice(INTERESTING)
            case 2:
                made[place:place] = chance.randbytes(size)
            case 3:
                del made[place : place + size]
            case 4:
                start = chance.randrange(len(other) + 1)
                made[place : place + size] = other[start : start + chance.randrange(64)]
            case _:
                made[place:place] = made[place : place + size]
    return bytes(made[:MOST_BYTES])


def corpus(name: str) -> list[bytes]:
    """Returns the kept inputs of a reader."""
    return [path.read_bytes() for path in sorted((CORPUS / name).iterdir())]


def fuzz(name: str, seconds: float, seed: int, *, keep: bool) -> list[bytes]:
    """Fuzzes a reader; returns the inputs whose outcome is a finding."""
    target, chance = TARGETS[name], random.Random(seed)
    pool, seen, findings, runs = corpus(name), set[Any](), list[bytes](), 0
    with tempfile.TemporaryDirectory() as place:
        for data in pool:
            seen |= covered(target, data, Path(place))[0]
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            data = changed(chance.choice(pool), chance.choice(pool), chance)
            reached, error = covered(target, data, Path(place))
            runs += 1
            if error is not None:
                traceback.print_exception(error)
                findings.append(data)
            elif not reached <= seen:
                pool.append(data)
                if keep:
                    digest = hashlib.sha256(data).hexdigest()[:16]
                    (CORPUS / name / digest).write_bytes(data)
            seen |= reached
    print(f"{name}: seed {seed}, {runs} runs, {len(pool)} inputs, {len(seen)} pairs of lines")
    return findings


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--keep", action="store_true")
    given = parser.parse_args()
    findings = fuzz(given.target, given.seconds, given.seed, keep=given.keep)
    for number, data in enumerate(findings):
        Path(f"finding-{given.target}-{number}").write_bytes(data)
    sys.exit(bool(findings))


if __name__ == "__main__":
    main()
