"""The first step of a comparison, against the reference and against sums of plain integers."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.kernels.draws import ring_tensor, rings, seeds
from tests.tiers import draws

from tacit.errors import ConfigError
from tacit.kernels import num_table_rows, pack_bits, sign_leaves, sign_tables, unpack_bits
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
    assert sign_tables(x, digits, written, shift=low, negate=flag) is written
    assert torch.equal(written, expected)
    expected = reference.sign_leaves(x, pad, digits, mask, low=low, first=flag)
    assert torch.equal(sign_leaves(x, pad, digits, mask, low=low, first=flag), expected)


@draws(60)
@given(windows(), seeds, st.booleans())
def test_the_carry_of_the_last_node_is_the_sign_of_the_sum(window, seed, negate):
    """Digits combined in plain bits, least significant first; one share is the pad."""
    ring, digits, low = window
    count, width = 300, sum(digits) + 1
    m, a = (ring_tensor(ring, (count,), seed + i) for i in range(2))
    pad = planes(num_table_rows(digits) + 1, count, seed + 2)
    one, two = (planes(2 * len(digits) - 1, count, seed + i) for i in (3, 4))
    tables = sign_tables(a, digits, pad.clone(), shift=low, negate=negate)
    rows = one ^ two ^ sign_leaves(m, pad, digits, one, low=low, first=False)
    rows ^= sign_leaves(m, tables, digits, two, low=low, first=True)
    carry = rows[0]
    for generate, propagate in zip(rows[1:], rows[len(digits) :], strict=False):
        carry = generate ^ (propagate & carry)
    sums = [(u >> low) - (-v >> low) for u, v in zip(m.tolist(), a.tolist(), strict=True)]
    signs = [total >> (width - 1) & 1 ^ negate for total in sums]
    assert unpack_bits(carry, (count,), torch.int64).tolist() == signs


X, PAD = torch.zeros(70, dtype=torch.int64), torch.zeros(16, 2, dtype=torch.int64)


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda: sign_tables(X, (8,), PAD), "digits"),
        (lambda: sign_tables(X, (4,), PAD[1:]), "pad"),
        (lambda: sign_tables(X, (4,), PAD.repeat(1, 2)[:, ::2]), "contiguous"),
        (lambda: sign_tables(X, (4,), PAD, shift=60), "window"),
        (lambda: sign_tables(X.float(), (4,), PAD), "dtype"),
        (lambda: sign_leaves(X, PAD[:15], (4,), PAD[:1], first=True), "tables"),
        (lambda: sign_leaves(X, PAD, (4,), PAD[:2], first=True), "mask"),
        (lambda: sign_leaves(X, PAD, (4,), PAD[:1], low=-1, first=True), "window"),
    ],
)
def test_bad_arguments_are_named(call, field):
    with pytest.raises(ConfigError, match=field):
        call()


def test_planes_may_have_any_layout():
    x = ring_tensor(RING64, (7, 11), 3)
    tables, mask = planes(16, 77, 4), planes(1, 77, 5)
    expected = sign_leaves(x.T.contiguous(), tables, (4,), mask, first=True)
    wide = torch.stack([tables, pack_bits(x.flatten()).expand(16, -1)], 2)[..., 0]
    assert torch.equal(sign_leaves(x.T, wide, (4,), mask, first=True), expected)
