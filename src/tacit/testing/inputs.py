"""Input and output: every owner, every receiver, public values, random secrets."""

from __future__ import annotations

import torch

from ..errors import ConfigError
from ..kernels import pack_bits
from ..protocols import BitSum
from ..runtime import Session
from .expect import expect, expect_error, expect_plain, expect_true, plain_of
from .values import SIZES, bit_values, ring_values, secret, secret_bits

SHAPES = ((), (1,), (65,), (3, 5), (2, 0, 3), (2, 1, 4, 3))


def check_share_and_reveal(session: Session) -> None:
    """Inputs of every owner and shape are revealed to every party."""
    p = session.protocol
    for owner in range(session.parties):
        for shape in SHAPES:
            value = ring_values(p.ring, shape, f"input {owner}")
            expect(p, secret(p, value, owner), value, f"input of {shape} by party {owner}")


def check_layouts_and_dtypes(session: Session) -> None:
    """Inputs can be views, and have other integer dtypes."""
    p = session.protocol
    value = ring_values(p.ring, (6, 8), "layout")
    expect(p, secret(p, value.t()[::2], 1), value.t()[::2], "input that is a view")
    narrow = torch.tensor([[-128, 127, 0]], dtype=torch.int8)
    expect(p, secret(p, narrow, 1), narrow.to(p.ring.dtype), "input of int8")


def check_reveal_to_one(session: Session) -> None:
    """Only the named party gets the values."""
    p = session.protocol
    value, bits = ring_values(p.ring, (70,), "reveal"), bit_values((70,), "reveal")
    x, b = secret(p, value, 1), secret_bits(p, bits, 2)
    for to in range(session.parties):
        for share, wanted in ((x, value), (b, bits[0])):
            found = p.reveal(share, to)
            if p.rank == to:
                expect_plain(p, found, wanted, f"reveal to party {to}")
            else:
                expect_true(p, found is None, f"nothing is revealed but to party {to}")


def check_bits(session: Session) -> None:
    """Bits for any number of elements, one or several for each."""
    p = session.protocol
    for n in SIZES:
        bits = bit_values((n,), "bits", 5)
        for owner in range(session.parties):
            one = secret_bits(p, bits[:1], owner)
            expect(p, one, bits[0].bool(), f"{n} bits by party {owner}")
            several = (bits << torch.arange(5)[:, None]).sum(0)
            expect(p, secret_bits(p, bits, owner), several, f"{n} numbers of 5 bits")


def check_public(session: Session) -> None:
    """Public values as shares."""
    p = session.protocol
    value, bits = ring_values(p.ring, (3, 30), "public"), bit_values((3, 30), "public")[0]
    expect(p, p.public(value), value, "public")
    expect(p, p.public(value[:0]), value[:0], "public and empty")
    expect(p, p.pack(bits), bits.bool(), "pack")
    expect(p, p.public_bits(pack_bits(bits).unsqueeze(0), bits.shape), bits.bool(), "public_bits")
    expect(p, p.add(secret(p, value), p.public(value)), value + value, "public plus secret")


def check_random(session: Session) -> None:
    """Random secrets are the same at all parties and differ from call to call."""
    p = session.protocol
    found = [plain_of(p, p.random((100,))) for _ in range(2)]
    planes = [plain_of(p, p.random_bits((100,), 9)) for _ in range(2)]
    for one, other in (found, planes):
        expect_true(p, (one != other).any(), "random secrets differ")
        total = secret(p, one.to(p.ring.dtype), 1)
        expect(p, total, one.to(p.ring.dtype), "all parties see the same random secret")
        expect_true(p, one.unique().numel() > 50, "random secrets are spread")


def check_wrong_inputs(session: Session) -> None:
    """Every party gets an error for its own wrong input, before anything is sent."""
    p, parties = session.protocol, session.parties
    value = torch.arange(4)
    mine, other = p.rank, (p.rank + 1) % parties
    wrong = {
        "an owner that does not exist": lambda: p.share(value, parties),
        "no shape": lambda: p.share(None, other),
        "no value from its owner": lambda: p.share(None, mine, shape=(4,)),
        "real numbers": lambda: p.share(value.float(), mine),
        "complex numbers": lambda: p.share(value.to(torch.complex64), mine),
        "another shape": lambda: p.share(value, mine, shape=(2, 2)),
        "planes of another shape": lambda: p.share_bits(value.view(1, 4), mine, (64,)),
        "no planes": lambda: p.share_bits(None, mine, (64,)),
        "bits of an owner that does not exist": lambda: p.share_bits(None, parties, (64,)),
        "a sum over no bits": lambda: p.inject_sums([], None, [BitSum((), ())]),
    }
    for what, action in wrong.items():
        expect_error(ConfigError, action, what)
    expect(p, secret(p, value, 1), value.to(p.ring.dtype), "the session goes on")


def check_wrong_receiver(session: Session) -> None:
    """A receiver that does not exist is refused."""
    p = session.protocol
    x = secret(p, torch.arange(4))
    expect_error(ConfigError, lambda: p.reveal(x, session.parties), "reveal to nobody")


CHECKS = (
    check_share_and_reveal,
    check_layouts_and_dtypes,
    check_reveal_to_one,
    check_bits,
    check_public,
    check_random,
    check_wrong_inputs,
    check_wrong_receiver,
)
