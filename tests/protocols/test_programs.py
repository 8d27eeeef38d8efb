"""Random programs: operations in any order, in blocks, in rotated roles, against plain integers.

A program is drawn from its seed, the same at every party. Values are integers with what is known of
them: of a quotient that is pending, the dividend, until it is revealed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
import pytest
import torch
from tests.protocols.members import parties_of

import tacit
from tacit import Session
from tacit.kernels import pack_bits
from tacit.registry import PROTOCOLS

N, SHIFT, POOL = 67, 3, 6
Finish = Callable[[], "Value | None"]


@dataclass
class Value:
    """A secret, and the integers of which it is the quotient by 2^pending, off by `units`."""

    share: Any
    dividend: np.ndarray
    pending: int = 0
    units: int = 1


class Program:
    """One party's run of the program of a seed."""

    def __init__(self, session: Session, seed: int) -> None:
        self.rng, self.session = Random(seed), session
        protocol: Any = session.protocol
        self.roles = [protocol]
        if hasattr(protocol, "rotated"):
            self.roles = [protocol.rotated(by) for by in range(3)]
        self.most = 1 << (session.config.ring // 2 - 7)
        self.pool = [self.fresh() for _ in range(POOL)]

    def run(self, steps: int) -> None:
        for _ in range(steps):
            p = self.rng.choice(self.roles)
            if self.rng.random() < 0.4:
                with p.parallel():
                    calls = [self.call(p) for _ in range(self.rng.randint(2, 4))]
            else:
                calls = [self.call(p)]
            for value in [finish() for finish in calls]:
                if value is not None and self.fits(value):
                    self.pool[self.rng.randrange(1, POOL)] = value
        for value in self.pool:
            self.known(value)

    def call(self, p: Any) -> Finish:
        kinds = [self.mul, self.mul, self.linear, self.sign, self.zero, self.inject, self.gate]
        return self.rng.choice(kinds)(p)

    # Values ------------------------------------------------------------------------------------

    def fresh(self) -> Value:
        plain = np.array([self.rng.randint(-self.most, self.most) for _ in range(N)], dtype=object)
        tensor = torch.tensor(plain.tolist(), dtype=self.session.protocol.ring.dtype)
        p, owner = self.rng.choice(self.roles), self.rng.randrange(self.session.parties)
        return Value(p.share(tensor, owner, limit=self.most), plain)

    def known(self, value: Value) -> np.ndarray:
        """The integers of a secret, after a check; of a quotient, as it was rounded."""
        p = self.rng.choice(self.roles)
        plain = np.array(p.reveal(value.share, to_dealer=True).tolist(), dtype=object)
        off = np.abs(plain * 2**value.pending - value.dividend)
        assert off.max() <= (value.units << value.pending if value.pending else 0)
        value.dividend, value.pending, value.units = plain, 0, 1
        value.share = value.share.promise(int(np.abs(plain).max()))
        return plain

    def fits(self, value: Value) -> bool:
        """Whether the next product of it is small enough, as the share knows itself."""
        return (value.share.limit >> value.share.pending) < self.most << 4

    def pick(self) -> Value:
        """A value that may be multiplied; the first always may."""
        value = self.rng.choice(self.pool)
        small = value.share.limit >> value.share.pending <= self.most
        return value if small else self.pool[0]

    # Calls: each gives what finishes it after the block ----------------------------------------

    def mul(self, p: Any) -> Finish:
        a, b, shift = self.pick(), self.pick(), self.rng.choice([0, SHIFT])
        share = p.mul(a.share, b.share, shift=shift)
        return lambda: Value(share, self.known(a) * self.known(b), shift)

    def linear(self, p: Any) -> Finish:
        a, b = self.rng.choice(self.pool), self.rng.choice(self.pool)
        if None not in (a.share.dealer, b.share.dealer) and a.share.dealer != b.share.dealer:
            return lambda: Value(a.share, self.known(a))
        combine, sign = self.rng.choice([(p.add, 1), (p.sub, -1)])
        share, most = combine(a.share, b.share), max(a.pending, b.pending)
        x, y = (v.dividend * 2 ** (most - v.pending) for v in (a, b))
        return lambda: Value(share, x + sign * y, most, a.units + b.units)

    def sign(self, p: Any) -> Finish:
        a, threshold = self.rng.choice(self.pool), self.rng.choice([0, 0, 5, -40])
        off = a.dividend - (threshold << a.pending)
        clear = np.abs(off) >= (a.units << a.pending if a.pending else 0)
        bit = p.sign(p.add_public(a.share, -threshold))

        def finish() -> None:
            found = np.array(p.reveal(bit, to_dealer=True).tolist())
            assert (found == (off < 0))[clear].all()

        return finish

    def zero(self, p: Any) -> Finish:
        a = self.rng.choice(self.pool)
        bit = p.is_zero(a.share)

        def finish() -> None:
            found = np.array(p.reveal(bit, to_dealer=True).tolist())
            assert (found == (self.known(a) == 0)).all()

        return finish

    def inject(self, p: Any) -> Finish:
        a, flags = self.rng.choice(self.pool), [self.rng.randrange(2) for _ in range(N)]
        planes = pack_bits(torch.tensor(flags)).unsqueeze(0)
        share = p.inject(p.public_bits(planes, (N,)), a.share)
        dividend, pending, units = a.dividend * np.array(flags, dtype=object), a.pending, a.units
        return lambda: Value(share, dividend, pending, units)

    def gate(self, p: Any) -> Finish:
        count = self.rng.randint(2, 5)
        plain = [torch.tensor([self.rng.randrange(4) > 0 for _ in range(N)]) for _ in range(count)]
        bit = p.bit_and(*[p.pack(bits) for bits in plain])

        def finish() -> None:
            assert torch.equal(p.reveal(bit, to_dealer=True), torch.stack(plain).all(0))

        return finish


def play(session: Session, seed: int, steps: int) -> None:
    Program(session, seed).run(steps)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("ring", [64, 32])
@pytest.mark.parametrize("protocol", [p for p in PROTOCOLS if PROTOCOLS[p].computes_on_shares])
def test_random_programs(protocol, ring, seed):
    print(f"seed {seed}")
    settings = {"protocol": protocol, "parties": parties_of(protocol), "ring": ring}
    tacit.run(play, seed, 30, fraction_bits=8, **settings)
