"""What an owner announces of its file, and what others say they expect of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import torch

from tacit.errors import naming_parties
from tacit.runtime.files import loading
from tacit.runtime.files.announcement import Announcement, Expectation, TensorEntry
from tacit.runtime.files.contents import Budget, Options
from tacit.runtime.files.messages import LoadMessage, encode_message

from ..attempts import Case, plant
from ..circle import NAMES, Circle
from ..hostile import distortions
from ..mutate import mutations

LIMIT = 1 << 26
EXPECTED = Expectation(None, None, LIMIT)
ENTRIES = TensorEntry("x", (4, 6), torch.float32), TensorEntry("y", (4,), torch.int64)
FILE = Announcement("dict", ENTRIES)
HUGE = ([1 << 61], [1 << 31, 1 << 31], [0, 1 << 61, 1 << 61], [1 << 40, 0], [1] * 17)


def _shared(n: Any, tensors: Any, owner: int) -> Any:
    """In the place of sharing: a peer has said what it would share."""
    return tensors


def listen(said: bytes, owner: int = 1) -> None:
    loading.share = _shared  # type: ignore[assignment]
    with naming_parties(NAMES):
        circle = Circle(said)
        loading.load(circle.numbers, None, owner, EXPECTED, Options(Budget(LIMIT)))


def _word(**changes: Any) -> bytes:
    fields = json.loads(encode_message(LoadMessage(1, EXPECTED, announced=FILE)))
    file = {name: changes.pop(name) for name in list(changes) if name in fields["file"]}
    return json.dumps({**fields, **changes, "file": {**fields["file"], **file}}).encode()


def _crafted() -> Iterator[tuple[str, bytes]]:
    for shape in HUGE:
        yield f"shape {shape}", _word(tensors=[["x", shape, "float32"]])
    yield "a negative size", _word(tensors=[["x", [-1], "float32"]])
    yield "a name twice", _word(tensors=[["x", [1], "float32"], ["x", [1], "float32"]])
    yield "no tensor at all, of one", _word(form="tensor", tensors=[])
    yield "pictures without labels", _word(form="pictures", tensors=[["images", [1], "uint8"]])
    yield "another form", _word(form="\x1b[2J")
    yield "a dtype of nobody", _word(tensors=[["x", [1], "complex64"]])
    yield "a name that clears a screen", _word(tensors=[["\x1b[2J", [1], "float32"]])
    yield "half a character", _word(tensors=[["\ud800", [1], "float32"]])
    yield "another owner", _word(owner=2)
    yield "an owner beyond all", _word(owner=1 << 40)
    yield "a failure that clears a screen", _word(failure="\x1b[2J")
    yield "a failure without end", _word(failure="x" * 5000)
    yield "a failure", _word(failure="it is no csv")
    yield "a limit below", _word(limit=-1)
    yield "columns that clear a screen", _word(columns=[["\x1b[2J", "a number"]])
    yield "a column twice", _word(columns=[["x", "a number"], ["x", "a date"]])
    yield "a column without a kind", _word(columns=[["x"]])
    yield "columns that are a text", _word(columns="x")
    many = [[str(i), [1], "float32"] for i in range(40_000)]
    yield "more names than a message holds", _word(tensors=many)
    yield "a field more", _word(more=1)
    yield "nothing", b""
    yield "only spaces", b" " * (1 << 20)


def cases(random: Random, count: int, _: Path) -> Iterator[Case]:
    plant("an expected name", "a name that only alice expects")
    good = _word()
    yield Case("valid", lambda: listen(good))
    for what, data in _crafted():
        yield Case(what, lambda d=data: listen(d), hostile=True, names="party 1 (bob")
    yield Case("a file that is not there", lambda: listen(_word(), 2), hostile=True, names="party")
    for what, data in distortions(json.loads(good), random, count):
        yield Case(what, lambda d=data: listen(d), names="party 1 (bob")
    for what, data in mutations(good, seed=random.randrange(1 << 30), count=count // 2):
        yield Case(what, lambda d=data: listen(d), names="party 1 (bob")
