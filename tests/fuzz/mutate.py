"""Malformed inputs made of valid ones, the same for the same seed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from random import Random

EXTREMES = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, (1 << 63) - 1, -1)
NESTS = (b"[", b"(", b"{", b'{"a":', b"[[],", b"-", b'"', b"'", b"\\", b"\0", b"\xff", b"9", b"\n")
MAGICS = (b"\x93NUMPY\x01\0", b"PK\x03\x04", b"PAR1", b"\x1f\x8b\x08\0", b"\x89PNG\r\n", b"\0" * 8)

Mutation = Callable[[bytes, Random], bytes]


def flip_bits(data: bytes, random: Random) -> bytes:
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 8, 64))):
        changed[random.randrange(len(data))] ^= 1 << random.randrange(8)
    return bytes(changed)


def truncate(data: bytes, random: Random) -> bytes:
    return data[: random.randrange(len(data))]


def change_length(data: bytes, random: Random) -> bytes:
    """An extreme number of 1, 2, 4 or 8 bytes somewhere; most often near an end, as lengths are."""
    size = random.choice((1, 2, 4, 8))
    near = random.choice((random.randrange(len(data)), random.randrange(64), -random.randrange(64)))
    place = near % len(data)
    number = random.choice(EXTREMES) & ((1 << 8 * size) - 1)
    return (
        data[:place] + number.to_bytes(size, random.choice(("little", "big"))) + data[place:][size:]
    )


def change_magic(data: bytes, random: Random) -> bytes:
    magic = random.choice((*MAGICS, random.randbytes(8)))
    return magic + data[len(magic) :]


def nest(data: bytes, random: Random) -> bytes:
    """The same opening many times, in place of something or between."""
    place = random.randrange(len(data))
    garbage = random.choice(NESTS) * random.choice((3, 100, 5_000, 100_000))
    return data[:place] + garbage + data[place + random.choice((0, len(garbage))) :]


def repeat(data: bytes, random: Random) -> bytes:
    start, end = sorted(random.randrange(len(data) + 1) for _ in range(2))
    return data[:end] + data[start:end] * random.choice((1, 2, 30)) + data[end:]


def remove(data: bytes, random: Random) -> bytes:
    start = random.randrange(len(data))
    return data[:start] + data[start + random.choice((1, 4, 100)) :]


def overwrite(data: bytes, random: Random) -> bytes:
    start, size = random.randrange(len(data)), random.choice((1, 4, 32, 256))
    filler = random.choice((bytes(size), b"\xff" * size, random.randbytes(size)))
    return data[:start] + filler + data[start + size :]


def append(data: bytes, random: Random) -> bytes:
    return data + random.choice((b"\0", random.randbytes(100), data))


def nothing_of_it(data: bytes, random: Random) -> bytes:
    return random.randbytes(random.choice((0, 1, 16, 4096)))


MUTATIONS: Mapping[str, Mutation] = {
    mutation.__name__: mutation
    for mutation in (
        flip_bits,
        truncate,
        change_length,
        change_magic,
        nest,
        repeat,
        remove,
        overwrite,
        append,
        nothing_of_it,
    )
}


def mutations(data: bytes, *, seed: int, count: int) -> Iterator[tuple[str, bytes]]:
    """`count` malformed inputs, with the names of what was done: each kind in turn, often two."""
    random = Random(seed)
    names = list(MUTATIONS)
    for number in range(count):
        chosen = [names[number % len(names)], *random.sample(names, random.choice((0, 0, 1)))]
        changed = data
        for name in chosen:
            changed = MUTATIONS[name](changed or b"\0", random)
        yield "+".join(chosen), changed
