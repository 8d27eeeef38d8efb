"""The log of calls: as the reference keeps it, and with another digest for other calls."""

from __future__ import annotations

import gc
import math
import struct
import weakref
from collections import namedtuple
from hashlib import blake2b
from itertools import product
from random import Random
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.tiers import draws

from tacit.kernels import load_call_log
from tacit.ring.reference.call_log import DIGEST_BYTES, LONG_BYTES
from tacit.ring.reference.call_log import CallLog as Reference

CLASSES = (load_call_log(), Reference)
Pair = namedtuple("Pair", "first second")


class Shaped:
    def __init__(self, *shape: Any, origin: int = 0) -> None:
        self.shape, self.origin = shape, origin

    def __repr__(self) -> str:
        return f"Shaped({self.shape}, {self.origin})"


class Other:
    """Described by what it is given."""

    def __init__(self, *told: Any) -> None:
        self.told = told

    def __repr__(self) -> str:
        return f"Other{self.told}"


def made(kind: type = CLASSES[0], kept: int = 100, **changes: Any) -> Any:
    """A log for which every file is the user's."""
    told = {"shaped": {Shaped}, "described": lambda x: x.told, "files": {}, **changes}
    return kind(
        told["shaped"], told["described"], told["files"], changes.get("is_users", _yes), kept
    )


def _yes(frame: object) -> bool:
    return True


def data_of(*args: Any, log: Any = None, **kwargs: Any) -> bytes:
    """A call's arguments as a log keeps them."""
    log = log or made(kept=1)
    log.absorb("", args, kwargs)
    [(_, data)] = log.entries(0, 1)
    return data


simple = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(1 << 63) - 2, (1 << 63) + 2),
    st.floats(),
    st.text(st.characters(exclude_categories=["Cs"])),
    st.binary(max_size=40),
    st.builds(
        lambda shape, origin: Shaped(*shape, origin=origin),
        st.lists(st.integers(0, 1 << 40), max_size=4),
        st.integers(0, 1 << 40),
    ),
)
nested = st.recursive(
    simple,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.lists(st.integers(0, 99), max_size=4).map(torch.Size),
        st.dictionaries(st.text("abc", max_size=3), inner, max_size=3),
        st.lists(inner, max_size=3).map(lambda told: Other(*told)),
    ),
    max_leaves=12,
)
calls = st.tuples(
    st.sampled_from(["aten::add.Tensor", "share: shape (2,)", "", "ä" * 70]),
    st.lists(nested, max_size=5),
    st.dictionaries(st.sampled_from(["dim", "out", "keepdim"]), nested, max_size=3),
)


@draws(200)
@given(done=st.lists(calls, max_size=6), kept=st.integers(1, 4))
def test_it_equals_the_reference(done, kept):
    logs = [made(kind, kept) for kind in CLASSES]
    for name, args, kwargs in done:
        found = {log.absorb(name, (args, tuple(args))[i], kwargs) for i, log in enumerate(logs)}
        assert len(found) == 1
    first = max(len(done) - kept, 0)
    kept_calls = [log.entries(first, len(done)) for log in logs]
    assert kept_calls[0] == kept_calls[1]
    assert [name for name, _ in kept_calls[0]] == [name for name, _, _ in done[first:]]


def test_the_digest_is_that_of_hashlib_at_all_lengths():
    """Of the chain of BLAKE2b, with data of every length around blocks and around long ones."""
    log, digest = made(kept=2), bytes(DIGEST_BYTES)
    for i, size in enumerate([*range(270), *range(LONG_BYTES - 20, LONG_BYTES + 20), 5000]):
        text = Random(size).randbytes(size)
        data = b"[\1\0\0\0b" + struct.pack("<I", size) + text + b"{\0\0\0\0"
        if len(data) > 512:
            data = b"#" + blake2b(data).digest()
        digest = blake2b(digest + b"name\0" + data, digest_size=16).digest()
        assert log.absorb("name", [text], {}) == digest, size
        assert log.entries(i, i + 1) == [("name", data)]


def test_every_byte_and_the_order_matter():
    done = [(f"op{i}", bytes([i] * i)) for i in range(12)]

    def digest(calls: list[tuple[str, bytes]]) -> bytes:
        log = made()
        return [log.absorb(name, [data], {}) for name, data in calls][-1]

    digests = {digest(done)}
    for i, (name, data) in enumerate(done):
        for at in range(len(data)):
            changed = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
            digests.add(digest([*done[:i], (name, changed), *done[i + 1 :]]))
        digests.add(digest([*done[:i], (name[:-1], data), *done[i + 1 :]]))
        digests.add(digest([*done[:i], *done[i + 1 :]]))
        if i:
            digests.add(digest([*done[: i - 1], done[i], done[i - 1], *done[i + 1 :]]))
    assert len(digests) == 1 + sum(range(12)) + 12 + 12 + 11


# Descriptions -------------------------------------------------------------------------------------

NEAR = [
    None, False, True, 0, 1, -1, 256, 0.0, -0.0, 1.0, math.nan, math.inf, -math.inf, "", "1", b"",
    b"1", 1 << 63, -(1 << 63), -(1 << 63) - 1, 1 << 64, [], [[]], [0], [0, 0], [[0], 0], ["a", "b"],
    ["ab"], {}, {"a": 0}, {"a": None}, Shaped(), Shaped(0), Shaped(1, 2), Shaped(12), Shaped(2, 1),
    Shaped(12, origin=1), Other(), Other(0), Other(Other(0)),
]  # fmt: skip


def test_what_differs_has_other_bytes_and_none_begin_with_others():
    found = [data_of(x) for x in NEAR]
    for (i, a), (j, b) in product(enumerate(found), repeat=2):
        assert i == j or not a.startswith(b), (NEAR[i], NEAR[j])


def test_where_an_argument_stands_matters():
    found = [data_of(1, 2), data_of([1, 2]), data_of(1, x=2), data_of(x=1, y=2), data_of(2, 1)]
    assert len(set(found)) == len(found)


def test_subclasses_are_what_they_derive_from():
    for one, other in [
        (Pair(1, 2.0), (1, 2.0)),
        (torch.Size([3, 4]), [3, 4]),
        (np.float64(0.5), 0.5),
    ]:
        assert data_of(one) == data_of(other)


class Size:
    def __index__(self) -> int:
        return 7


def test_a_size_may_be_computed():
    assert data_of(Shaped(2, Size())) == data_of(Shaped(2, 7))
    for kind in CLASSES:
        with pytest.raises((TypeError, struct.error)):
            data_of(Shaped("2"), log=made(kind))


def test_deep_lists_are_described_up_to_a_limit():
    deep: list[object] = []
    for _ in range(98):
        deep = [deep]
    assert data_of(deep) == data_of(deep, log=made(Reference))
    endless: list[object] = []
    endless.append(endless)
    for kind, wrong in product(CLASSES, ([deep], endless, Other(deep))):
        with pytest.raises(RecursionError, match="nested too deeply"):
            data_of(wrong, log=made(kind))


def without_end(x: Other) -> tuple[Other]:
    return (x,)


def raising(x: Other) -> tuple[object]:
    raise KeyError("described")


@pytest.mark.parametrize("kind", CLASSES, ids=["compiled", "reference"])
def test_a_call_that_cannot_be_described_is_not_in_the_log(kind):
    for described in (without_end, raising):
        log, same = made(kind, described=described), made(kind)
        for one in (log, same):
            one.absorb("first", [1], {})
        for wrong in (["\ud800"], [Other()]):
            with pytest.raises((UnicodeEncodeError, RecursionError, KeyError)):
                log.absorb("wrong", wrong, {})
        with pytest.raises(UnicodeEncodeError):
            log.absorb("\ud800", [], {})
        assert log.absorb("last", [2], {}) == same.absorb("last", [2], {})
        assert log.entries(0, 2) == same.entries(0, 2)


def test_wrong_types_are_errors():
    log = made(described=lambda x: 1)
    for call in [
        lambda: log.absorb(b"name", [], {}),
        lambda: log.absorb("name", [Other()], {}),
        lambda: made(shaped=[]),
    ]:
        with pytest.raises(TypeError):
            call()
    with pytest.raises(ValueError, match="at least one"):
        made(kept=0)


@pytest.mark.parametrize("kind", CLASSES, ids=["compiled", "reference"])
def test_python_that_runs_meanwhile_may_change_the_arguments_and_the_log(kind):
    args: list[Any] = [Other(), Other(), 3]
    named: dict[str, Any] = {"a": Other(), "b": 2}

    def described(x: Other) -> tuple[Any, ...]:
        args.clear()
        named.pop("b", None)
        log.absorb("inner", [5], {})
        gc.collect()
        return (1,)

    log = made(kind, described=described)
    log.absorb("outer", args, named)
    assert [name for name, _ in log.entries(0, 3)] == ["inner", "inner", "outer"]


# What is kept -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", CLASSES, ids=["compiled", "reference"])
def test_the_last_calls_are_kept(kind):
    log = made(kind, kept=1 << 13)
    for i in range((1 << 13) + 10):
        log.absorb(str(i), [], {})
    for gone in (9, 0, (1 << 13) + 10):
        with pytest.raises(IndexError):
            log.entries(gone, gone + 1)
        with pytest.raises(IndexError):
            log.place(gone)
    kept = log.entries(10, (1 << 13) + 10)
    assert [name for name, _ in kept] == [str(i) for i in range(10, (1 << 13) + 10)]
    assert log.entries(3, 3) == []


def test_names_and_code_are_freed():
    log, space = made(kept=3), {}
    exec(compile("def call(log, name):\n    log.absorb(name, [], {})\n", "user.py", "exec"), space)
    code = weakref.ref(space["call"].__code__)
    space["call"](log, "x")
    space.clear()
    gc.collect()
    assert code() is not None
    for _ in range(3):
        log.absorb("other", [], {})
    gc.collect()
    assert code() is None


class Owner:
    log: Any

    def described(self, x: Other) -> tuple[Any, ...]:
        return x.told


def test_a_log_that_its_own_function_refers_to_is_freed():
    owner = Owner()
    owner.log = made(described=owner.described)
    gone = weakref.ref(owner)
    del owner
    gc.collect()
    assert gone() is None
