"""What a peer answers where links are measured."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from random import Random

from tacit.errors import naming_parties
from tacit.transport.probe import probe

from ..attempts import Case
from ..circle import NAMES, Circle
from ..hostile import distortions
from ..mutate import mutations

VERSIONS = {"tacit": "0.1.0", "torch": "2.6", "python": "3.11.7"}
TIMES = struct.pack("<dd", 1e9, 1e9)
ANSWERS = [json.dumps(VERSIONS).encode(), *[TIMES] * 20, *[b""] * 20, b"", b""]


def measure(*said: bytes) -> None:
    """Party 1 answers so, as far as it goes, and then as it should."""
    circle = Circle(*said, *ANSWERS[len(said) :])
    circle.parties = 2
    with naming_parties(NAMES):
        links = probe(circle, megabytes=1, versions=VERSIONS)  # type: ignore[arg-type]
    for link in links.values():  # what `party check` prints
        json.dumps(vars(link), allow_nan=False).encode()


def cases(random: Random, count: int, _: Path) -> Iterator[Case]:
    yield Case("valid", measure)
    for what, data in distortions(VERSIONS, random, count):
        yield Case(what, lambda d=data: measure(d), names="party 1 (bob")
    for what, data in mutations(ANSWERS[0], seed=random.randrange(1 << 30), count=count):
        yield Case(what, lambda d=data: measure(d), names="party 1 (bob")
    extremes = (float("nan"), float("inf"), -1e308, 1e308, -1.0, 1e300, 5e-324)
    for came in extremes:
        for left in extremes:
            data = struct.pack("<dd", came, left)
            act = lambda d=data: measure(ANSWERS[0], *[d] * 20)  # noqa: E731
            yield Case(f"from {came} to {left}", act, names="party 1 (bob")
    for size in (0, 1, 15, 17, 1 << 20):
        act = lambda s=size: measure(ANSWERS[0], bytes(s))  # noqa: E731
        yield Case(f"a time in {size} bytes", act, hostile=True, names="party 1 (bob")
        act = lambda s=size: measure(*ANSWERS[:21], bytes(s + 1))  # noqa: E731
        yield Case(f"a question in {size + 1} bytes", act, hostile=True, names="party 1 (bob")
