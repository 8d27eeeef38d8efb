"""Bits into the ring and exact truncation: against the reference and against Python's integers."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.kernels.draws import ring_tensor, rings, seeds, shapes
from tests.tiers import draws

from tacit.errors import ConfigError
from tacit.kernels import (
    backend,
    bit_planes,
    correct_inject_exact,
    deal_exact,
    deal_flip,
    deal_inject_exact,
    deal_injection,
    exact_share,
    flip_share,
    inject_exact_share,
    inject_share,
    pack_bits,
    unpack_bits,
)
from tacit.ring import RING32, RING64, Ring, num_words
from tacit.ring.reference import injection as reference


def drawn(ring: Ring, shape: tuple[int, ...], seed: int, count: int) -> list[torch.Tensor]:
    return [ring_tensor(ring, shape, seed + i) for i in range(count)]


def drawn_bits(shape: tuple[int, ...], seed: int) -> torch.Tensor:
    """Packed bits with garbage beyond the last element."""
    return ring_tensor(RING64, (num_words(torch.Size(shape).numel()),), seed)


def as_ints(x: torch.Tensor) -> list[int]:
    return x.flatten().tolist()


def same(found, expected) -> bool:
    return all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


# Bit for bit ------------------------------------------------------------------------------------


@draws(60)
@given(rings, shapes, seeds, st.booleans())
def test_injection_equals_the_reference(ring, shape, seed, first):
    bits = drawn_bits(shape, seed)
    a, b, c, d, out = drawn(ring, shape, seed + 1, 5)
    expected = reference.inject_share(bits, a, b, c, d, first=first, out=out.clone())
    assert torch.equal(inject_share(bits, a, b, c, d, first=first, out=out.clone()), expected)
    assert torch.equal(inject_share(bits, a, b, c, d, first=first, minus=-out), expected)
    expected = reference.flip_share(bits, a, first=first, out=out.clone())
    assert torch.equal(flip_share(bits, a, first=first, out=out.clone()), expected)
    expected = reference.deal_flip(bits, b.clone())
    assert torch.equal(deal_flip(bits, b.clone()), expected)
    found = deal_injection(bits, a, b.clone(), c.clone())
    assert same(found, reference.deal_injection(bits, a, b.clone(), c.clone()))


@st.composite
def shifts(draw):
    ring = draw(rings)
    return ring, draw(st.one_of(st.integers(1, ring.bits - 2), st.sampled_from([1, ring.bits - 2])))


@draws(60)
@given(shifts(), shapes, seeds, st.booleans())
def test_truncation_equals_the_reference(shift, shape, seed, first):
    ring, t = shift
    bits = drawn_bits(shape, seed)
    *six, out = drawn(ring, shape, seed + 1, 7)
    expected = reference.exact_share(*six[:3], t, first=first, out=out.clone())
    assert torch.equal(exact_share(*six[:3], t, first=first, out=out.clone()), expected)
    assert torch.equal(exact_share(*six[:3], t, first=first, minus=-out), expected)
    expected = reference.inject_exact_share(bits, *six, t, first=first, out=out.clone())
    assert torch.equal(inject_exact_share(bits, *six, t, first=first, out=out.clone()), expected)
    packed = [bit_planes(top, t + 1) for top in six[4:]]
    found = inject_exact_share(bits, *six[:4], *packed, t, first=first, packed=True, minus=-out)
    assert torch.equal(found, expected)
    assert same(deal_exact(six[0], t), reference.deal_exact(six[0], t))
    assert same(deal_inject_exact(bits, six[0], t), reference.deal_inject_exact(bits, six[0], t))
    expected = reference.correct_inject_exact(bits, out, t, [pad.clone() for pad in six[:5]])
    assert same(correct_inject_exact(bits, out, t, [pad.clone() for pad in six[:5]]), expected)


# What they mean ---------------------------------------------------------------------------------


@draws(40)
@given(rings, seeds)
def test_the_sum_of_the_shares_is_bit_times_x(ring, seed):
    shape = (200,)
    x, mask, own, pad_flip, pad_product, start = drawn(ring, shape, seed, 6)
    b, y = drawn_bits(shape, seed + 6), drawn_bits(shape, seed + 7)
    flip, product = deal_injection(y, mask, pad_flip.clone(), pad_product.clone())
    opened = x - mask
    left = inject_share(b, opened, pad_flip, pad_product, own, first=True, out=start.clone())
    right = inject_share(b, opened, flip, product, mask - own, first=False, out=torch.zeros_like(x))
    bit = unpack_bits(b ^ y, shape, torch.int64)
    chosen = [ring.wrap(u * v) for u, v in zip(as_ints(bit), as_ints(x), strict=True)]
    assert as_ints(left + right - start) == chosen
    zero = torch.zeros_like(x)
    left = flip_share(b, pad_flip, first=False, out=zero.clone())
    right = flip_share(b, deal_flip(y, pad_flip.clone()), first=True, out=zero.clone())
    assert as_ints(left + right) == as_ints(bit)


def small_and_masked(ring: Ring, seed: int, t: int) -> tuple[torch.Tensor, torch.Tensor]:
    """|x| < 2^(k-2), and masks of which a third are where x + w or w wraps."""
    count, limit = 1000, 1 << (ring.bits - 2)
    x, mask, near = drawn(ring, (count,), seed, 3)
    x = (x >> 2) % (2 * limit - 1) - (limit - 1)
    generator = torch.Generator().manual_seed(seed)
    exponents = torch.randint(0, ring.bits - 2, (count,), generator=generator)
    x = torch.where(near % 5 == 0, x >> exponents.to(x.dtype), x)
    edge = torch.tensor([ring.low, 0, limit, -limit], dtype=ring.dtype)[near % 4]
    close = edge + (near >> 9) % (1 << t) - (1 << (t - 1))
    mask = torch.where(near % 3 == 0, close, mask)
    return x, torch.where(near % 7 == 0, edge - x, mask)  # `opened` is then at an edge


@draws(60)
@given(shifts(), seeds)
def test_truncation_is_floor_or_one_more(shift, seed):
    ring, t = shift
    x, mask = small_and_masked(ring, seed, t)
    quotient, packed = deal_exact(mask, t)
    pad, pad_top, start = drawn(ring, x.shape, seed + 3, 3)
    top = unpack_bits(packed, x.shape, ring.dtype)
    rest_top = (top - pad_top) & ((1 << t) - 1)  # only the low t bits are dealt
    opened = x - mask
    left = exact_share(opened, pad, pad_top, t, first=False, out=start.clone())
    right = exact_share(opened, quotient - pad, rest_top, t, first=True, out=torch.zeros_like(x))
    floor = x >> t
    off = left + right - start - floor
    assert set(as_ints(off)) <= {0, 1}
    assert as_ints(floor) == [v // 2**t for v in as_ints(x)]


@draws(60)
@given(shifts(), seeds)
def test_injected_truncation_is_bit_times_it(shift, seed):
    ring, t = shift
    x, mask = small_and_masked(ring, seed, t)
    b, y = drawn_bits(x.shape, seed + 10), drawn_bits(x.shape, seed + 11)
    low, flip_low, top, flip_top = deal_inject_exact(y, mask, t)
    tops = [unpack_bits(packed, x.shape, ring.dtype) for packed in (top, flip_top)]
    flip = unpack_bits(y, x.shape, ring.dtype)
    dealt = [flip, flip_low, low, *tops]
    pads = drawn(ring, x.shape, seed + 3, 5)
    rest = correct_inject_exact(y, mask, t, [pad.clone() for pad in pads])
    assert same(rest, [value - pad for value, pad in zip(dealt, pads, strict=True)])
    for shares in (pads, rest):
        shares[3:] = [share & ((1 << (t + 1)) - 1) for share in shares[3:]]
    opened, zero = x - mask, torch.zeros_like(x)
    left = inject_exact_share(b, opened, *pads, t, first=False, out=zero.clone())
    right = inject_exact_share(b, opened, *rest, t, first=True, out=zero.clone())
    quotient, packed = deal_exact(mask, t)
    exact = exact_share(
        opened, quotient, unpack_bits(packed, x.shape, ring.dtype), t, first=True, out=zero.clone()
    )
    bit = unpack_bits(b ^ y, x.shape, ring.dtype)
    assert torch.equal(left + right, bit * exact)
    assert set(as_ints(exact - (x >> t))) <= {0, 1}


# Threads, devices, arguments --------------------------------------------------------------------


def everything(ring: Ring, count: int) -> list[torch.Tensor]:
    bits = drawn_bits((count,), 1)
    a, b, c, d, e, f, out = drawn(ring, (count,), 2, 7)
    return [
        inject_share(bits, a, b, c, d, first=True, out=out.clone()),
        flip_share(bits, a, first=True, out=out.clone()),
        deal_flip(bits, a.clone()),
        *deal_injection(bits, a, b.clone(), c.clone()),
        exact_share(a, b, c, 13, first=True, out=out.clone()),
        *deal_exact(a, 13),
        inject_exact_share(bits, a, b, c, d, e, f, 13, first=True, out=out.clone()),
        *deal_inject_exact(bits, a, 13),
        *correct_inject_exact(bits, a, 13, [x.clone() for x in (b, c, d, e, f)]),
    ]


@pytest.mark.parametrize("ring", [RING32, RING64], ids=["int32", "int64"])
def test_thread_counts_agree(ring):
    before = backend.num_threads()
    try:
        backend.set_num_threads(1)
        one = everything(ring, (1 << 17) + 77)
        backend.set_num_threads(3)
        assert same(everything(ring, (1 << 17) + 77), one)
    finally:
        backend.set_num_threads(before)


def test_forced_reference(force_reference):
    fast = everything(RING64, 100)
    force_reference()
    assert same(everything(RING64, 100), fast)


def test_packed_results_have_zeros_beyond_the_last_element():
    mask = torch.full((70,), -1, dtype=torch.int64)
    bits = torch.full((2,), -1, dtype=torch.int64)
    ones = pack_bits(torch.ones(70, dtype=torch.bool))
    assert torch.equal(deal_exact(-mask, 3)[1], ones)
    assert same(deal_inject_exact(bits, -mask, 3)[2:], (ones, ones))


X, B = torch.zeros(70, dtype=torch.int64), torch.zeros(2, dtype=torch.int64)


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda: inject_share(B[:1], X, X, X, X, first=True, out=X.clone()), "needs 2"),
        (lambda: inject_share(B.int(), X, X, X, X, first=True, out=X.clone()), "bits: dtype"),
        (lambda: inject_share(B, X, X[:69], X, X, first=True, out=X.clone()), "one shape"),
        (lambda: inject_share(B, X, X.int(), X, X, first=True, out=X.clone()), "dtype"),
        (lambda: flip_share(B, X, first=True, out=X.float()), "dtype"),
        (lambda: flip_share(B, X, first=True, out=X.repeat(2)[::2]), "contiguous"),
        (lambda: deal_flip(B[:1], X.clone()), "needs 2"),
        (lambda: deal_injection(B, X, X.clone(), X[:3].clone()), "one shape"),
        (lambda: exact_share(X, X, X, 0, first=True, out=X.clone()), "t=0"),
        (lambda: exact_share(X, X, X, 63, first=True, out=X.clone()), "t=63"),
        (lambda: deal_exact(X.int(), 31), "t=31"),
        (lambda: deal_exact(X.float(), 3), "dtype"),
        (lambda: inject_exact_share(B, *[X] * 6, 0, first=True, out=X.clone()), "t=0"),
        (lambda: inject_exact_share(B, *[X] * 6, 3, first=True, packed=True, minus=X), "top"),
        (lambda: inject_share(B, X, X, X, X, first=True), "give one"),
        (lambda: inject_share(B, X, X, X, X, first=True, out=X.clone(), minus=X), "give one"),
        (lambda: deal_inject_exact(B[:0], X, 3), "needs 2"),
        (lambda: correct_inject_exact(B, X, 3, [X.clone()] * 4 + [X[:3].clone()]), "one shape"),
    ],
)
def test_bad_arguments_are_named(call, field):
    with pytest.raises(ConfigError, match=field):
        call()
