"""What Beaver triples add: many parties on plain parts, pooled views, and a dealer that is none."""

from __future__ import annotations

import random

import pytest
import torch
from tests.protocols.members import run_members
from tests.protocols.pads import bare_messages, unpadded
from tests.protocols.views import Message, Recorder

import tacit
from tacit import Session
from tacit.protocols.beaver import io
from tacit.testing import ProtocolSuite

# One of each kind of operation, for numbers of parties that the registry's tests do not run.
KINDS = (
    "share_and_reveal",
    "reveal_to_one",
    "random",
    "matmul",
    "truncate",
    "thresholds",
    "parallel",
)


def test_five_parties_conform():
    ProtocolSuite("beaver", parties=5).run(*KINDS)


def test_five_parties_divide_and_compare_quotients():
    """More than two parts wrap more than once, and a comparison needs guard bits."""
    names = "truncation_modes", "products", "sums_of_quotients", "signs_of_quotients"
    for truncation in ("exact", "probabilistic"):
        suite = ProtocolSuite("beaver", parties=5, truncation=truncation)
        suite.run(*names)


# Views -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["mul", "matmul", "bit_and", "inject of a quotient"])
def test_no_single_party_learns_anything(name):
    assert not bare_messages("beaver", 64, name)


def sum_of_quotients(session: Session) -> list[Message]:
    """Party 2 learns the sum of two quotients, of an input of party 0 and one of party 1."""
    recorder, p = Recorder(session), session.protocol
    x, y = (p.share(torch.arange(64), owner, limit=64).divided(3) for owner in (0, 1))
    quotients = [p.truncate(one, exact=False) for one in (x, y)]
    recorder.take()
    p.reveal(p.add(*quotients), 2)
    return recorder.take()


def test_a_reveal_tells_the_sum_of_the_parts_only(monkeypatch):
    """All messages but the last have masks of their own; the last follows from what is revealed."""
    assert not unpadded(sum_of_quotients, 2, told=1, protocol="beaver")
    monkeypatch.setattr(io, "hidden_part", lambda context, own, *_, **__: own.contiguous())
    assert unpadded(sum_of_quotients, 2, told=1, protocol="beaver")


# Input and output --------------------------------------------------------------------------------


def test_parts_of_an_input_are_uniform_and_add_up():
    value = torch.arange(-4000, 4000)

    def main(session: Session) -> torch.Tensor:
        p = session.protocol
        return p.share(value if session.rank == 1 else None, 1, value.shape).parts[p.rank]

    *parts, dealer = run_members(main, protocol="beaver")
    assert torch.equal(sum(parts), value)
    assert not dealer.any()
    for part in parts:
        assert len(part.unique()) == len(part)
        assert 0.45 < (part & 1).double().mean() < 0.55


# Division ----------------------------------------------------------------------------------------


def crypten_errors(x: list[int], t: int, n: int, generator: random.Random) -> set[int]:
    """By how many units a wrap count of n signed parts is off, in exact integers."""
    full, errors = 1 << 64, set()

    def signed(value: int) -> int:
        return (value + full // 2) % full - full // 2

    for value in x:
        parts = [signed(generator.getrandbits(64)) for _ in range(n - 1)]
        parts.append(signed(value - sum(parts)))
        wraps = (sum(parts) - value) // full
        quotients = sum(abs(part) // (1 << t) * (1 if part > 0 else -1) for part in parts)
        quotients -= wraps * (full >> t)
        errors.add(signed(quotients) - (value >> t))
    return errors


@pytest.mark.parametrize("parties", [3, 5])
def test_many_parts_are_divided_with_one_rounding(parties):
    """The error is 0 or 1, where wrap counts as in CrypTen round every part by itself."""
    x, t = torch.arange(-(1 << 20), 1 << 20, 1021) * 37 + 5, 16
    seed = 11
    print("seed", seed)

    def main(session: Session) -> torch.Tensor:
        p = session.protocol
        return p.reveal(p.truncate(p.share(x, 0).divided(t), exact=False))

    [found, *_] = tacit.run(main, protocol="beaver", parties=parties)
    assert set((found - (x >> t)).tolist()) == {0, 1}
    theirs = crypten_errors(x.tolist(), t, parties, random.Random(seed))
    assert max(theirs) - min(theirs) > 1
