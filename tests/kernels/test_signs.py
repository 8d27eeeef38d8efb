"""The first step of a comparison, against the reference and against sums of plain integers."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.kernels.draws import ring_tensor, rings, seeds
from tests.tiers import draws

from tacit.errors import ConfigError
from tacit.kernels import (
    num_table_rows,
    pack_bits,
    sign_leaves,
    sign_planes,
    sign_tables,
    unpack_bits,
)
from tacit.ring import RING64, num_words
from tacit.ring.reference import signs as reference

counts = st.sampled_from([0, 1, 63, 64, 65, 130, 1000])
digit_lists = st.lists(st.integers(1, 7), min_size=1, max_size=4).map(tuple)


def planes(rows: int, count: int, seed: int) -> torch.Tensor:
    return ring_tensor(RING64, (rows, num_words(count)), seed)


@st.composite
def windows(draw):
    """A ring, digits and a lowest bit, so that the window lies in the ring."""
    ring, digits = draw(rings), draw(digit_lists)
    return ring, digits, draw(st.integers(0, ring.bits - 1 - sum(digits)))


@draws(60)
@given(windows(), counts, seeds, st.booleans())
def test_both_equal_the_reference(window, count, seed, flag):
    ring, digits, low = window
    x, rows = ring_tensor(ring, (count,), seed), num_table_rows(digits) + 1
    pad, mask = planes(rows, count, seed + 1), planes(2 * len(digits) - 1, count, seed + 2)
    expected = reference.sign_tables(x, digits, pad, shift=low, negate=flag)
    written = pad.clone()
    v = sign_planes(x, digits, shift=low, up=True)
    assert sign_tables(v, digits, written, negate=flag) is written
    assert torch.equal(written, expected)
    expected = reference.sign_leaves(x, pad, digits, mask, low=low, first=flag)
    u = sign_planes(x, digits, shift=low)
    assert torch.equal(sign_leaves(u, pad, digits, mask, first=flag), expected)


@draws(60)
@given(windows(), seeds, st.booleans(), st.booleans())
def test_the_carry_of_the_last_node_is_the_sign_of_the_sum(window, seed, negate, exchanged):
    """Digits combined in plain bits, least significant first; one share is the pad."""
    ring, digits, low = window
    count, width = 300, sum(digits) + 1
    m, a = (ring_tensor(ring, (count,), seed + i) for i in range(2))
    pad = planes(num_table_rows(digits) + 1, count, seed + 2)
    one, two = (planes(2 * len(digits) - 1, count, seed + i) for i in (3, 4))
    u, v = sign_planes(m, digits, shift=low), sign_planes(a, digits, shift=low, up=True)
    if exchanged:  # which term is dealt makes no difference
        u, v = v, u
    tables = sign_tables(v, digits, pad.clone(), negate=negate)
    rows = one ^ two ^ sign_leaves(u, pad, digits, one, first=False)
    rows ^= sign_leaves(u, tables, digits, two, first=True)
    carry = rows[0]
    for generate, propagate in zip(rows[1:], rows[len(digits) :], strict=False):
        carry = generate ^ (propagate & carry)
    sums = [(u >> low) - (-v >> low) for u, v in zip(m.tolist(), a.tolist(), strict=True)]
    signs = [total >> (width - 1) & 1 ^ negate for total in sums]
    assert unpack_bits(carry, (count,), torch.int64).tolist() == signs


X, PAD = torch.zeros(70, dtype=torch.int64), torch.zeros(16, 2, dtype=torch.int64)
U = PAD[:5]


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda: sign_planes(X, (8,)), "digits"),
        (lambda: sign_planes(X, (4,), shift=60, up=True), "window"),
        (lambda: sign_planes(X, (4,), shift=-1), "window"),
        (lambda: sign_planes(X.float(), (4,)), "dtype"),
        (lambda: sign_tables(U[1:], (4,), PAD), "v"),
        (lambda: sign_tables(U, (4,), PAD[1:]), "pad"),
        (lambda: sign_tables(U, (4,), PAD.repeat(1, 2)[:, ::2]), "contiguous"),
        (lambda: sign_leaves(U[1:], PAD, (4,), PAD[:1], first=True), "u"),
        (lambda: sign_leaves(U, PAD[:15], (4,), PAD[:1], first=True), "tables"),
        (lambda: sign_leaves(U, PAD, (4,), PAD[:2], first=True), "mask"),
    ],
)
def test_bad_arguments_are_named(call, field):
    with pytest.raises(ConfigError, match=field):
        call()


def test_planes_may_have_any_layout():
    x = ring_tensor(RING64, (7, 11), 3)
    tables, mask = planes(16, 77, 4), planes(1, 77, 5)
    u = sign_planes(x.T.contiguous(), (4,))
    expected = sign_leaves(u, tables, (4,), mask, first=True)
    wide = torch.stack([tables, pack_bits(x.flatten()).expand(16, -1)], 2)[..., 0]
    assert torch.equal(sign_leaves(sign_planes(x.T, (4,)), wide, (4,), mask, first=True), expected)
