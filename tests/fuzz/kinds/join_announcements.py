"""What an owner announces of a table that is to be joined."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from tacit.errors import naming_parties
from tacit.runtime.files.contents import Budget, Options
from tacit.runtime.files.messages import MOST, MOST_BYTES, MOST_NAME, MOST_REASON
from tacit.runtime.joining.announcing import Announced, announce, encode

from ..attempts import Case, plant
from ..circle import NAMES, Circle
from ..hostile import distortions
from ..mutate import mutations

OWNERS = (1, 2)
TABLE = Announced(40, ("age", "dose"))


def listen(said: bytes) -> None:
    """Party 0 owns none of the tables. All give the same arguments, then party 1 says this."""
    with naming_parties(NAMES):
        circle = Circle(None, said)
        options = Options(Budget(1 << 20))
        announce(circle.numbers, (None, None), OWNERS, ["id"], options, arguments={"on=": "id"})


def _word(rows: Any = 40, names: Any = ("age", "dose"), failure: Any = "") -> bytes:
    return json.dumps([rows, names, failure]).encode()


def _crafted() -> Iterator[tuple[str, bytes]]:
    for rows in (-1, MOST, 1 << 63, 4.0, True, "40", None, [40]):
        yield f"rows {rows!r}", _word(rows=rows)
    yield "a name twice", _word(names=["age", "age"])
    yield "names that are a text", _word(names="age")
    yield "names that are a dict", _word(names={"age": 1})
    yield "a name that is a number", _word(names=[3])
    yield "a name that clears a screen", _word(names=["\x1b[2J"])
    yield "half a character", _word(names=["\ud800"])
    yield "a name without end", _word(names=["x" * (MOST_NAME + 1)])
    yield "more names than a message holds", _word(names=[str(i) for i in range(MOST_BYTES // 6)])
    yield "a failure", _word(failure="it is no csv")
    yield "a failure that clears a screen", _word(failure="\x1b[2J")
    yield "a failure without end", _word(failure="x" * (MOST_REASON + 1))
    yield "a failure that is a list", _word(failure=["it is no csv"])
    yield "a field less", json.dumps([40, ["age"]]).encode()
    yield "a field more", json.dumps([40, ["age"], "", 1]).encode()
    yield "no list", json.dumps({"rows": 40}).encode()
    yield "nothing", b""
    yield "no text", b"\xff\xfe"
    yield "lists in lists", b"[" * 100_000
    yield "only spaces", b" " * (1 << 24)


def cases(random: Random, count: int, _: Path) -> Iterator[Case]:
    plant("an id", "an id that only alice has")
    good = encode(TABLE)
    yield Case("valid", lambda: listen(good))
    for what, data in _crafted():
        yield Case(what, lambda d=data: listen(d), hostile=True, names="party 1 (bob")
    for what, data in distortions(json.loads(good), random, count):
        yield Case(what, lambda d=data: listen(d), names="party 1 (bob")
    for what, data in mutations(good, seed=random.randrange(1 << 30), count=count // 2):
        yield Case(what, lambda d=data: listen(d), names="party 1 (bob")
