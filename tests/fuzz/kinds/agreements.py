"""What a party says where all compare what they have: jobs, models, checkpoints, trainings."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

from tacit.errors import CheckpointRejected, HandshakeMismatch, naming_parties
from tacit.nn.checkpoint import _at_all
from tacit.nn.checkpoint_agreement import Answer, agree_on_saved
from tacit.runtime.train.resume import common_checkpoints, exchange_inventories
from tacit.transport.consensus import agree

from ..attempts import Case, plant
from ..circle import NAMES, Circle, spoken
from ..hostile import distortions
from ..mutate import mutations

ITEMS = {"the program": "0123abcd", "the arguments": '["10"]', "ring of the party file": "64"}
LINES = {"layers.0.weight": "Parameter, shape (4, 6)", "layers.0.bias": "Parameter, shape (6,)"}
IDENTITY = "0123456789abcdef" * 2

Act = Callable[[Circle], object]


def job(circle: Circle) -> None:
    agree(circle, ITEMS, error=HandshakeMismatch)  # type: ignore[arg-type]


def model(circle: Circle) -> None:
    agree(circle, LINES, topic="share")  # type: ignore[arg-type]


def checkpoint(circle: Circle) -> None:
    own = Answer("", False, IDENTITY, 7, "three parts", 3)
    agree_on_saved(circle.numbers, own, None, Path("party-0.tacit"))


def writing(circle: Circle) -> None:
    _at_all(circle.numbers, "write", Path("party-0.tacit"), lambda: None)


def training(circle: Circle) -> None:
    answers = exchange_inventories(
        circle.numbers,
        {IDENTITY: 7, IDENTITY[::-1]: 9},
        [CheckpointRejected("step-1: changed")],
        None,
        Path("folder"),
    )
    common_checkpoints(answers)
    assert len("; ".join(answer.summary for answer in answers)) < 1 << 20


def _case(what: str, act: Act, *said: bytes | None, hostile: bool = False) -> Case:
    def talk() -> None:
        with naming_parties(NAMES):
            act(Circle(*said))

    return Case(f"{act.__name__}: {what}", talk, hostile=hostile, names="party 1 (bob")


def _bombs() -> Iterator[tuple[str, bytes]]:
    """Little that becomes much."""
    for what, start, again, end in (
        ("zeros", b"", b"\0", b""),
        ("spaces", b"", b" ", b"[]"),
        ("empty lists", b"[", b"[],", b"0]"),
        ("empty tables", b"[", b"{},", b"0]"),
        ("lines", b"[", b'["a",""],', b'["b",""]]'),
        ("a long line", b'[["a","', b"x", b'"]]'),
        ("lists in lists", b"", b"[", b""),
        ("digits", b"[", b"9", b"]"),
    ):
        yield what, _packed(start, again * ((1 << 20) // len(again)), 256, end)


def _packed(start: bytes, middle: bytes, times: int, end: bytes) -> bytes:
    """Returns what zlib makes of start + times middle + end, compressing the middle once."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    head, repeated = (
        packer.compress(part) + packer.flush(zlib.Z_FULL_FLUSH) for part in (start, middle)
    )
    check = zlib.adler32(start)
    for _ in range(times):
        check = zlib.adler32(middle, check)
    tail = packer.compress(end) + packer.flush() + zlib.adler32(end, check).to_bytes(4)
    return b"\x78\xda" + head + repeated * times + tail


def cases(random: Random, count: int, _: Path) -> Iterator[Case]:
    plant("the address of a file", "/home/alice/party-0.tacit")
    yield Case("valid", lambda: [act(Circle()) for act in (job, model, checkpoint, training)])
    for act in (checkpoint, training):
        [honest, *_] = spoken(act)
        for what, data in distortions(json.loads(honest), random, count):
            yield _case(what, act, data)
        for what, data in mutations(honest, seed=random.randrange(1 << 30), count=count // 2):
            yield _case(what, act, data)
        for what, data in (
            ("a list", b"[]"),
            ("a number", b"7"),
            ("nothing", b""),
            ("no text", b"\xff" * 50),
            ("a million lists", b"[" + b"[]," * 300_000 + b"0]"),
            ("UTF-16", honest.decode().encode("utf-16")[:-1]),
        ):
            yield _case(what, act, data, hostile=True)
    for failure in (b"\xff\xfe", b"\x1b[2J\x07", b"x" * (1 << 20), "\u202e".encode(), b"no space"):
        yield _case(repr(failure[:10]), writing, failure, hostile=True)
    for act, items in ((job, ITEMS), (model, LINES)):
        text = json.dumps(list(items.items())).encode()
        packed = zlib.compress(text)
        for what, data in distortions(json.loads(text), random, count):
            yield _case(what, act, bytes(32), zlib.compress(data), hostile=True)
        for what, data in mutations(packed, seed=random.randrange(1 << 30), count=count):
            yield _case(what, act, bytes(32), data, hostile=True)
        for what, digest in (("no digest", b""), ("a long digest", bytes(1 << 20))):
            yield _case(what, act, digest, None, hostile=True)
        yield _case("one thing first, another then", act, bytes(32), packed, hostile=True)
    for what, data in _bombs():
        yield _case(f"a bomb of {what}", model, bytes(32), data, hostile=True)
    odd = struct.pack("<Q", 1 << 63)
    yield _case("rubbish in the second round only", job, None, odd)
