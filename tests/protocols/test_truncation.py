"""Exact truncation is never off by more than one unit; the probabilistic one as often as declared.

Probabilistic truncation fails if x + mask wraps. Half of the masks here put x next to a wrap, which
uniform masks of 64 bits hardly ever do.
"""

from __future__ import annotations

from math import sqrt

import pytest
import torch
from tests import tiers
from tests.protocols.chosen_randomness import Draw, changed_draws, other_words, seeded_words
from torch import Tensor

import tacit
from tacit import Session, kernels
from tacit.errors import ConfigError
from tacit.kernels import injection
from tacit.protocols import Protocol
from tacit.ring import RING32, RING64, Ring

SEED = "truncation 1"
CHUNK = 1 << 18
SIGMAS = 6  # a normal deviate is beyond with probability 2e-9
# The slow reference would take minutes for as many elements as the compiled kernels.
COMPILED = injection.native_for() is not None
ELEMENTS = 2 * 10**6 if not COMPILED else 3 * 10**7 if tiers.FULL else 10**7
FEWER = ELEMENTS // 5  # in the small ring, and for the injection, whose quotient is the same


def turning_points(ring: Ring) -> Tensor:
    """Returns opened values, x - mask, next to a wrap."""
    quarter, k = 1 << (ring.bits - 2), ring.bits
    middle = [0, quarter, -quarter, ring.low, ring.high]
    values = {ring.wrap(v + d) for v in middle for d in (-2, -1, 0, 1, 2)}
    values |= {ring.wrap(v + d) for v in middle for d in (1 << (k // 4), (1 << (k // 4)) - 1)}
    return torch.tensor(sorted(values), dtype=ring.dtype)


def extremes(ring: Ring) -> Tensor:
    """Values of x, up to |x| < 2^(k-2)."""
    most = (1 << (ring.bits - 2)) - 1
    powers = [1 << m for m in range(0, ring.bits - 2, 5)]
    values = [0, most, most - 1, *powers, *(p - 1 for p in powers)]
    return torch.tensor(values + [-v for v in values], dtype=ring.dtype)


def mixed(special: Tensor, uniform: Tensor, choice: Tensor) -> Tensor:
    """A special value for half of the elements, chosen by the bits of `choice`."""
    chosen = special[(choice >> 1).to(torch.int64).remainder(len(special))]
    return torch.where(choice & 1 == 1, chosen, uniform)


def operands(ring: Ring, chunk: int) -> tuple[Tensor, Tensor, Tensor]:
    """x, and the opened value and the mask that add up to it."""
    words = seeded_words(SEED, (4, CHUNK), ring.dtype, chunk)
    x = mixed(extremes(ring), words[0] >> 1, words[1])
    opened = mixed(turning_points(ring), words[2], words[3])
    return x, opened, x - opened


def shares(ring: Ring, chunk: int, value: Tensor, width: int, salt: str) -> tuple[Tensor, Tensor]:
    """Returns two shares that add up to the value modulo 2^width; higher bits are arbitrary."""
    pad = seeded_words(SEED + salt, value.shape, ring.dtype, chunk)
    rest = value - pad
    if width < ring.bits:
        rest = kernels.from_bit_planes(kernels.bit_planes(rest, width), value.shape, ring.dtype)
    return pad, rest


def shifts(ring: Ring) -> list[int]:
    k = ring.bits
    return [1, 2, k // 8, k // 4, k // 4 + 1, k // 2 - 1, k // 2, k - 3, k - 2]


def check_units(found: Tensor, x: Tensor, t: int, where: str) -> None:
    """Every quotient is rounded down or up."""
    off = found - (x >> t)
    wrong = int(((off != 0) & (off != 1)).sum())
    assert wrong == 0, f"{wrong} quotients by 2^{t} are off, {where}"


@pytest.mark.parametrize("ring", [RING64, RING32], ids=["64", "32"])
def test_the_masks_are_hard(ring):
    """On these operands the probabilistic truncation fails often, not once in 2^20."""
    x, opened, mask = operands(ring, 0)
    off = (opened >> 1) - (-mask >> 1) - (x >> 1)
    assert int(((off != 0) & (off != 1)).sum()) > CHUNK // 20


@pytest.mark.parametrize("ring", [RING64, RING32], ids=["64", "32"])
def test_exact_share_is_never_off(ring):
    elements = ELEMENTS if ring is RING64 else FEWER
    print(f"seed {SEED!r}, {elements} elements")
    for chunk in range(-(-elements // CHUNK)):
        t = shifts(ring)[chunk % len(shifts(ring))]
        x, opened, mask = operands(ring, chunk)
        quotient, top = kernels.deal_exact(mask, t)
        tops = kernels.unpack_bits(top, x.shape, ring.dtype)
        dealt = zip(
            shares(ring, chunk, quotient, ring.bits, "q"),
            shares(ring, chunk, tops, t, "r"),
            strict=True,
        )
        found = torch.zeros_like(x)
        for first, (q, r) in zip((False, True), dealt, strict=True):
            kernels.exact_share(opened, q, r, t, first=first, out=found)
        check_units(found, x, t, f"chunk {chunk}")


@pytest.mark.full("test_exact_share_is_never_off, and conformance")
@pytest.mark.parametrize("ring", [RING64, RING32], ids=["64", "32"])
def test_inject_exact_share_is_never_off(ring):
    print(f"seed {SEED!r}, {FEWER} elements")
    for chunk in range(-(-FEWER // CHUNK)):
        t = shifts(ring)[chunk % len(shifts(ring))]
        x, opened, mask = operands(ring, chunk)
        b, y = seeded_words(SEED + "b", (2, CHUNK // 64), torch.int64, chunk)
        low, flip_low, top, flip_top = kernels.deal_inject_exact(y, mask, t)
        flip, *tops = (kernels.unpack_bits(w, x.shape, ring.dtype) for w in (y, top, flip_top))
        values = [(v, ring.bits) for v in (flip, flip_low, low)] + [(v, t + 1) for v in tops]
        dealt = [shares(ring, chunk, v, w, f"d{i}") for i, (v, w) in enumerate(values)]
        found = torch.zeros_like(x)
        for first, own in zip((False, True), zip(*dealt, strict=True), strict=True):
            kernels.inject_exact_share(b, opened, *own, t, first=first, out=found)
        bit = kernels.unpack_bits(b ^ y, x.shape, torch.bool)
        assert not found[~bit].any()
        check_units(found[bit], x[bit], t, f"chunk {chunk}")


# The protocol, with masks that a test forces ----------------------------------------------------


def forced(draw: Draw, words: Tensor) -> Tensor:
    """Ring masks from the turning points, the same at both holders; bits stay uniform."""
    uniform = other_words(draw, words, SEED)
    if words.dim() > 1 and words.dtype == torch.int64 and words.shape[-1] == N // 64:
        return uniform  # planes of bits
    ring = RING32 if words.dtype == torch.int32 else RING64
    points = turning_points(ring)
    return points[uniform.to(torch.int64).remainder(len(points))]


N = 8192


def truncate_all(session: Session, roles: int) -> list[tuple[str, int, Tensor, Tensor]]:
    """Every way to make a pending division: the quotient, and the dividend."""
    p: Protocol = session.protocol.rotated(roles)  # type: ignore[attr-defined]
    ring = p.ring
    words = seeded_words(SEED + "x", (4, N), ring.dtype)
    t, half = ring.bits // 4, ring.bits // 2 - 2
    x = mixed(extremes(ring), words[0] >> 1, words[1])
    a, b = (w >> (ring.bits - half) for w in words[2:])  # |a b| < 2^(k-4)
    ones = p.pack(torch.ones(N, dtype=torch.int64))
    found = []
    for owner in range(3):
        shared = p.share(x, owner, limit=1 << (ring.bits - 2))
        found.append((f"share {owner}", t, p.truncate(shared.divided(t)), x))
        found.append((f"inject {owner}", t, p.inject(ones, shared.divided(t)), x))
    product = p.mul(p.share(a, 0), p.share(b, 1), shift=t)
    total = p.add(product, p.mul(p.share(b, 2), p.share(b, 0), shift=t))
    found.append(("inject of a sum", t, p.inject(ones, total), a * b + b * b))
    found.append(("sum", t, p.settled(total), a * b + b * b))
    found.append(("product", t, p.truncate(product), a * b))
    return [(name, t, p.reveal(y), wanted) for name, t, y, wanted in found]


@pytest.mark.parametrize("roles", range(3))
@pytest.mark.parametrize("ring", [64, 32])
def test_the_protocol_is_exact_at_the_turning_points(ring, roles):
    print(f"seed {SEED!r}")
    with changed_draws(forced):
        results = tacit.run(truncate_all, roles, ring=ring, fraction_bits=8)
    for result in results:
        for name, t, found, wanted in result:
            check_units(found, wanted, t, name)


def divide_by_too_much(session: Session) -> Tensor:
    p = session.protocol
    x = p.share(torch.arange(3), 0, limit=7)
    ones = p.pack(torch.ones(3, dtype=torch.int64))
    for call in (p.truncate, p.settled, lambda y: p.inject(ones, y)):
        with pytest.raises(ConfigError, match=r"by 2\^63: .* 2\^62 at most"):
            call(x.divided(63))
    return p.reveal(x)


@pytest.mark.parametrize("protocol", ["trio", "replicated", "cleartext"])
def test_too_large_a_divisor_is_refused_by_all(protocol):
    for plain in tacit.run(divide_by_too_much, protocol=protocol):
        assert plain.tolist() == [0, 1, 2]


# The probabilistic one --------------------------------------------------------------------------


def divide_products(session: Session, x: int, n: int, t: int) -> tuple[Tensor, int]:
    p = session.protocol
    a = p.share(torch.full((n,), x, dtype=torch.int32), 0)
    b = p.share(torch.ones(n, dtype=torch.int32), 1)
    with session.stats.scope("mul") as cost:
        y = p.mul(a, b, shift=t)
    return p.reveal(y), cost.rounds


@pytest.mark.parametrize("x", [1 << 20, -(1 << 20), (1 << 24) + 77, -(1 << 24) - 77, 1 << 28])
def test_the_probabilistic_one_fails_as_often_as_it_says(x):
    """|x| / 2^k of all quotients are off, by 2^(k-t); the others are rounded without a bias."""
    n, t = 1 << 18, 8
    results = tacit.run(
        divide_products, x, n, t, ring=32, fraction_bits=8, truncation="probabilistic"
    )
    y, _ = results[0]
    assert max(rounds for _, rounds in results) == 1
    off = y.to(torch.int64) - (x >> t)
    failed = (off != 0) & (off != 1)
    rate = abs(x) / 2**32
    assert abs(int(failed.sum()) - n * rate) < SIGMAS * sqrt(n * rate)
    wrap = 2 ** (32 - t)
    assert bool(torch.isin(off[failed].abs() - wrap, torch.tensor([-1, 0, 1])).all())
    up = (x % 2**t) / 2**t  # how often a quotient is rounded up
    spread = SIGMAS * sqrt(n * up * (1 - up))
    assert abs(int(off[~failed].sum()) - up * int((~failed).sum())) <= spread
