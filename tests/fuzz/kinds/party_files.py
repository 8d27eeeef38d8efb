"""Party files that nobody should have written."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from pathlib import Path
from random import Random

from tests.runtime.party_files import blocks, credentials, write_dealt

from tacit.runtime.deploy.party_file import read_party_file

from ..attempts import Case, plant
from ..mutate import mutations

HEAD = 'protocol = "trio"\nreveals = ["bob"]\ndeadline = 30.0\n'
NUMBERS = ("0", "-1", "0.0", "-0.0", "nan", "inf", "-inf", "1e999", "9" * 400, "9" * 5000, "true")
WRONG = ('""', "[]", "{}", '["x"]', "1979-05-27", "{ a = 1 }", '"\\u001b[2J"', f'"{"x" * 5000}"')
FIELDS = (
    *("protocol", "ring", "fraction_bits", "truncation", "range_bits", "memory_limit"),
    *("placement", "reveals", "deadline", "connect_deadline", "patience", "party", "dealer"),
)
ALLOWED = {
    *(("reveals", "[]"), ("fraction_bits", "0"), ("memory_limit", "9" * 400)),
    ("dealer", "[]"),
}
INSIDE = ("name", "address", "certificate", "device")


def _crafted(parties: list[str], random: Random) -> Iterator[tuple[str, str]]:
    valid = "\n".join(parties)
    for field in FIELDS:
        for value in (*NUMBERS, *WRONG):
            if (field, value) not in ALLOWED:
                yield f"{field} = {value[:20]}", f"{field} = {value}\n{valid}"
    for field in INSIDE:
        for value in random.sample((*NUMBERS, *WRONG), 6):
            spoilt = re.sub(rf"(?m)^{field} = .*$", "", parties[0])
            if field == "certificate":
                spoilt = parties[0].split("certificate")[0]
            rest = "\n".join(parties[1:])
            yield f"{field} = {value[:20]} inside", f"{spoilt}\n{field} = {value}\n{rest}"
    for address in ("", ":1", "a:0", "a:65536", "a:99999", "[::1:7", "[::g]:7", "a b:1", "a:-1"):
        changed = re.sub(r'address = ".*"', f'address = "{address}"', parties[0])
        yield f"address {address!r}", "\n".join([changed, *parties[1:]])
    yield "one party", parties[0]
    yield "no party", HEAD
    yield "the same party twice", "\n".join([parties[0], *parties])
    yield "a field twice", f"ring = 64\nring = 64\n{valid}"
    yield "another table", f"{valid}\n[more]\na = 1"
    yield "a party that is a table", "[party]\nname = 'alice'"
    yield "parties in a row", "party = [1, 2]"
    yield "a key in the place of the file", credentials("alice").private_key.decode()
    key = credentials("alice").private_key.decode().split("\n")[1]
    yield (
        "a key in the place of the certificate",
        re.sub(r"(?s)'''.*?'''", f"'{key}'", parties[0], count=1) + "\n".join(parties[1:]),
    )
    for name, deep in (
        ("arrays", "reveals = " + "[" * 100_000),
        ("tables", "reveals = " + "{a=" * 100_000),
        ("a dotted name", ".".join("a" * 100_000) + " = 1"),
        ("many dotted names", "\n".join("b" * i + ".a" * 63 + " = 1" for i in range(1, 600))),
        ("a dotted header", "[" + ".".join("a" * 100_000) + "]"),
        ("names", "\n".join(f"a{i} = 1" for i in range(20_000))),
        ("headers", "[[party]]\n" * 20_000),
        ("quotes", '"' * 200_000),
        ("backslashes", 'name = "' + "\\\\" * 100_000 + '"'),
        ("digits", "ring = " + "9" * 200_000),
        ("digits and lines", "ring = " + "9_" * 100_000),
        ("too much", "#" * (1 << 21)),
    ):
        yield f"endless {name}", deep


def cases(random: Random, count: int, folder: Path) -> Iterator[Case]:
    secret = credentials("alice").private_key.split(b"\n")[1]
    plant("the private key", base64.b64decode(secret)[-32:])
    plant("the text of the private key", secret)
    parties = blocks([7001, 7002, 7003])
    valid = HEAD + "\n".join(parties)
    path = folder / "parties.toml"

    def read(data: bytes) -> None:
        path.write_bytes(data)
        read_party_file(path)

    yield Case("valid", lambda: read(valid.encode()))
    dealt = write_dealt(folder, ports=[7001, 7002, 7003]).read_bytes()
    yield Case("valid, with a dealer", lambda: read(dealt))
    for what, data in mutations(dealt, seed=random.randrange(1 << 30), count=count // 4):
        yield Case(f"{what}, with a dealer", lambda d=data: read(d), names="parties.toml")
    for what, text in _crafted(parties, random):
        act = lambda t=text: read(t.encode())  # noqa: E731
        yield Case(what, act, hostile=True, names="parties.toml")
    for what, data in mutations(valid.encode(), seed=random.randrange(1 << 30), count=count):
        yield Case(what, lambda d=data: read(d), names="parties.toml")
    for what, data in (("bytes that are no text", b"\xff\xfe\0"), ("zeros", bytes(1000))):
        yield Case(what, lambda d=data: read(d), hostile=True, names="parties.toml")
    yield Case("a folder", lambda: read_party_file(folder), hostile=True, names=str(folder))
