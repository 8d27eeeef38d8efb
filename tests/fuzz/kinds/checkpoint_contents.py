"""Checkpoints that are authentic, by whoever has the key, and make no sense."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from random import Random
from typing import Any

from ..attempts import Case
from ..hostile import distortions, nested
from ..mutate import mutations
from ..saved import Saved, load_it, sealed, written

SHAPES: tuple[Any, ...] = (
    *([-1], [-6, -4], [6, -4], [1 << 62, 4], [0, 1 << 62, 1 << 62], [1 << 70], [0, 1 << 47]),
    *([True, 24], [6.0, 4], ["6", 4], [[6], 4], [None], None, "ab", 24, {}, [1] * 300, [24], []),
)
PARTS: tuple[Any, ...] = ([], [0], [0, 0], [0, 1, 2], [7, 8], [-1], ["0"], None, 3, {}, [[0], [1]])
LIMITS: tuple[Any, ...] = ("", "-1", "x", "9" * 5000, None, 7, [], "1e3")
PLACES: tuple[Any, ...] = (-1, 64, 1 << 70, "26", None, 26.0, [])


def _changed(saved: Saved) -> Iterator[tuple[str, Any]]:
    """The table and the settings, with one thing changed that the parts still fit, or not."""
    for field, values in (
        ("shape", SHAPES),
        ("parts", PARTS),
        ("limit", LIMITS),
        ("places", PLACES),
        ("dtype", ("complex64", "object", "", None, 7, [], "qint8")),
        ("name", (None, 7, [], "", "model/2.bias", "\x1b[2J")),
    ):
        for value in values:
            contents = deepcopy(saved.contents)
            next(entry for entry in contents["tensors"] if "parts" in entry)[field] = value
            yield f"{field}={str(value)[:30]}", contents
    for what, change in (
        ("an entry twice", lambda table: [table[0], *table]),
        ("an entry less", lambda table: table[1:]),
        ("no entries", lambda table: []),
        ("entries that are texts", lambda table: ["name", "shape"]),
        ("a table of texts", lambda table: "entries"),
        ("a number", lambda table: 7),
    ):
        yield what, saved.contents | {"tensors": change(saved.contents["tensors"])}
    optimizer = saved.contents["plain"]["optimizer"]
    for what, new in (
        ("no plain", None),
        ("plain in a list", []),
        ("no extra", {"optimizer": optimizer}),
        ("an optimizer in a list", {"optimizer": [], "extra": None}),
        ("no groups", {"optimizer": optimizer | {"groups": None}, "extra": None}),
        ("groups of texts", {"optimizer": optimizer | {"groups": ["lr"]}, "extra": None}),
        ("no states", {"optimizer": optimizer | {"states": []}, "extra": None}),
        ("states of numbers", {"optimizer": optimizer | {"states": [1, 2, 3, 4]}, "extra": None}),
        ("a kind of nobody", {"optimizer": optimizer | {"kind": {}}, "extra": None}),
        ("parameters", _option(optimizer, "params", "x")),
        ("a tensor of nobody", _option(optimizer, "lr", {"tensor": "nobody's"})),
        ("a tensor in a list", _option(optimizer, "lr", {"tensor": []})),
        ("a tuple of texts", _option(optimizer, "lr", {"tuple": 7})),
        ("a table", _option(optimizer, "lr", {})),
        ("a list", _option(optimizer, "lr", [1])),
    ):
        yield what, saved.contents | {"plain": new}


def _option(optimizer: Any, name: str, value: Any) -> Any:
    changed = deepcopy(optimizer)
    changed["groups"][0][name] = value
    return {"optimizer": changed, "extra": None}


def cases(random: Random, count: int, folder: Path) -> Iterator[Case]:
    saved = written(folder)

    def case(what: str, contents: bytes, *, hostile: bool = True, size: int | None = None) -> Case:
        length = struct.pack("<Q", len(contents) if size is None else size)
        data = sealed(saved, [length, contents, saved.parts])
        return Case(what, lambda: load_it(saved, data), hostile=hostile)

    good = json.dumps(saved.contents).encode()
    yield case("valid", good, hostile=False)
    for what, contents in _changed(saved):
        yield case(what, json.dumps(contents).encode())
    for size in (0, 1, len(good) - 1, len(good) + 1, 1 << 31, 1 << 63, (1 << 64) - 1):
        yield case(f"contents of {size}", good, size=size)
    for depth in (900, 50_000):
        yield case(f"{depth} deep", nested("[", depth, "]").encode())
    yield case("contents that are no text", b"\xff" * 100)
    for body in ([], [b"\0"], [bytes(8)], [bytes(1 << 20)]):
        data = sealed(saved, body)
        what = f"a body of {sum(map(len, body))}"
        yield Case(what, lambda d=data: load_it(saved, d), hostile=True)
    whole = [struct.pack("<Q", len(good)), good, saved.parts]
    for what, body in (
        ("a byte more", [*whole, b"x"]),
        ("a byte less", [*whole[:2], whole[2][1:]]),
    ):
        data = sealed(saved, body)
        yield Case(what, lambda d=data: load_it(saved, d), hostile=True)
    for what, text in distortions(saved.contents, random, count):
        yield case(what, text, hostile=False)
    for what, text in mutations(good, seed=random.randrange(1 << 30), count=count):
        yield case(what, text, hostile=False)
