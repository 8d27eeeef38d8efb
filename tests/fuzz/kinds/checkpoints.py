"""Files in the place of a checkpoint, by whoever lacks its key."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from random import Random

from tacit.nn.encrypted_file import CHUNK, MAGIC

from ..attempts import Case
from ..hostile import distortions
from ..mutate import mutations
from ..saved import KEY, PASSPHRASE, Saved, chunks_of, framed, load_it, written

COSTS = (0, -1, 3, 1 << 19, 1 << 21, 1 << 30, 1 << 70, 0.5, "8", None, float("inf"))


def _crafted(saved: Saved) -> Iterator[tuple[str, bytes]]:
    chunks = chunks_of(saved)
    header = json.dumps(saved.header).encode()
    for size in (0, 15, 1 << 16, CHUNK + 17, 1 << 31, (1 << 32) - 1):
        yield f"a chunk of {size}", framed(header, struct.pack("<I", size) + chunks[4:])
        yield f"a header of {size}", MAGIC + struct.pack("<I", size) + header + chunks
    yield "no chunk", framed(header, b"")
    yield "the chunks twice", framed(header, chunks * 2)
    yield "an empty chunk before", framed(header, struct.pack("<I", 16) + bytes(16) + chunks)
    yield "many empty chunks", framed(header, (struct.pack("<I", 16) + bytes(16)) * 10_000)
    yield "deep lists", framed(b"[" * 60_000, chunks)
    yield "another version", saved.raw.replace(b"checkpoint 2", b"checkpoint 1", 1)
    yield "zeros", bytes(1 << 20)
    yield "nothing", b""
    for name in saved.header:
        yield (
            f"without {name}",
            framed(
                json.dumps({k: v for k, v in saved.header.items() if k != name}).encode(), chunks
            ),
        )


def cases(random: Random, count: int, folder: Path) -> Iterator[Case]:
    saved = written(folder)
    yield Case("valid", lambda: load_it(saved, saved.raw))
    for what, data in _crafted(saved):
        yield Case(what, lambda d=data: load_it(saved, d), hostile=True)
    for name in "nrp":
        for cost in COSTS:
            scrypt = {"n": 1 << 10, "r": 8, "p": 1} | {name: cost}
            kdf = saved.header["kdf"] | {"scrypt": scrypt}
            data = framed(json.dumps({**saved.header, "kdf": kdf}).encode(), chunks_of(saved))
            act = lambda d=data: load_it(saved, d, PASSPHRASE)  # noqa: E731
            yield Case(f"scrypt with {name}={cost}", act, hostile=True)
    for what, text in distortions(saved.header, random, count):
        data = framed(text, chunks_of(saved))
        yield Case(f"{what} in the header", lambda d=data: load_it(saved, d), hostile=True)
        if "kdf" in what:
            act = lambda d=data: load_it(saved, d, PASSPHRASE)  # noqa: E731
            yield Case(f"{what} in the header, with a passphrase", act, hostile=True)
    for what, data in mutations(saved.raw, seed=random.randrange(1 << 30), count=count):
        hostile = data != saved.raw
        yield Case(what, lambda d=data: load_it(saved, d), hostile=hostile)
    act = lambda: load_it(saved, saved.raw, KEY[::-1])  # noqa: E731
    yield Case("another key", act, hostile=True, names="key is wrong")
