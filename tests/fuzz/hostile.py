"""Values of JSON in which one thing is not as it should be, the same for the same seed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from random import Random
from typing import Any

DEEP = 900  # less than what the reader refuses by itself, more than what comes after it likes
VALUES: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    1 << 63,
    -(1 << 70),
    10**4000,
    0.5,
    float("inf"),
    float("nan"),
    "",
    "0",
    "\ud800",
    "\x1b[2J\r\n\0",
    "x" * 50_000,
    "9" * 5_000,
    [],
    {},
    [[]],
    [None, [], {}],
    {"": {}},
)

Place = tuple[Any, ...]


def places(value: Any, here: Place = ()) -> Iterator[Place]:
    """The way to every value within a value, itself included."""
    yield here
    if isinstance(value, dict | list):
        for key, one in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(one, (*here, key))


def _put(value: Any, place: Place, new: Any) -> Any:
    if not place:
        return new
    value = deepcopy(value)
    inside = value
    for key in place[:-1]:
        inside = inside[key]
    inside[place[-1]] = new
    return value


def _take(value: Any, place: Place) -> Any:
    for key in place:
        value = value[key]
    return value


def _without(value: Any, place: Place) -> Any:
    value = deepcopy(value)
    inside = _take(value, place[:-1])
    del inside[place[-1]]
    return value


def nested(opening: str, depth: int, closing: str) -> str:
    return opening * depth + "0" + closing * depth


def distortions(value: Any, random: Random, count: int) -> Iterator[tuple[str, bytes]]:
    """`count` texts that are JSON, or nearly, with what was done to them."""
    everywhere = list(places(value))
    for number in range(count):
        place = random.choice(everywhere)
        told = "/".join(map(str, place))
        way = number % 5
        if way == 3 and place:
            yield f"without {told}", json.dumps(_without(value, place)).encode()
        elif way == 4:
            mark = json.dumps("here it goes")
            depth = random.choice((DEEP, 50_000))
            deep = random.choice((nested("[", depth, "]"), nested('{"a":', depth, "}")))
            text = json.dumps(_put(value, place, "here it goes"))
            yield f"{depth} deep at {told}", text.replace(mark, deep).encode()
        elif way == 2 and place and isinstance(_take(value, place[:-1]), dict):
            holder = place[:-1]
            added = _put(value, (*holder, random.choice(("", "\x1b[31m", "party 1 \ud800"))), 1)
            yield f"more beside {told}", json.dumps(added).encode()
        else:
            new = random.choice(VALUES)
            yield f"{str(new)[:20]!r} at {told}", json.dumps(_put(value, place, new)).encode()
