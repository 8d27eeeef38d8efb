"""Gates on planes: the compiled kernels and the reference, against plain bits and integers."""

from itertools import product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.kernels.draws import ring_tensor, seeds
from tests.tiers import draws

from tacit.errors import ConfigError
from tacit.kernels import (
    and_gates,
    and_products,
    backend,
    bit_planes,
    leaf_carries,
    leaf_matches,
    leaf_tables,
    node_carries,
    node_products,
    num_and_products,
    num_products,
    num_table_rows,
    unpack_bits,
)
from tacit.ring import RING64
from tacit.ring.reference import gates as reference

widths = st.sampled_from([0, 1, 2, 3, 7, 8, 9, 31, 63, 64, 65, 130])
digit_lists = st.lists(st.integers(1, 7), min_size=1, max_size=5).map(tuple)
size_lists = st.one_of(
    st.lists(st.integers(2, 5), min_size=1, max_size=4).map(tuple),
    st.sampled_from([(9,), (6, 2), (2, 7), (8, 3)]),
)


def planes(rows: int, words: int, seed: int) -> torch.Tensor:
    return ring_tensor(RING64, (rows, words), seed)


def drawn(words: int, seed: int, *rows: int) -> list[torch.Tensor]:
    return [planes(n, words, seed + i) for i, n in enumerate(rows)]


def in_place(function, *arguments, **keywords) -> torch.Tensor:
    """The function's result in the memory of its last argument, the pad or mask."""
    *others, last = arguments
    last = last.clone()
    result = function(*others, last, **keywords, out=last)
    assert result.data_ptr() == last.data_ptr()
    return result


def bit_rows(x: torch.Tensor) -> torch.Tensor:
    """Planes as rows of single bits."""
    return torch.stack([unpack_bits(row, (64 * len(row),), torch.bool) for row in x])


# Bit for bit ------------------------------------------------------------------------------------


@draws(60)
@given(digit_lists, widths, seeds, st.booleans())
def test_leaves_equal_the_reference(digits, words, seed, first):
    n, rows = len(digits), num_table_rows(digits)
    u, tables, pairs, singles = drawn(words, seed, sum(digits), rows, 2 * n - 1, n)
    expected = reference.leaf_tables(u, digits, tables)
    assert torch.equal(leaf_tables(u, digits, tables), expected)
    assert torch.equal(in_place(leaf_tables, u, digits, tables), expected)
    for fast, slow, mask in (
        (leaf_carries, reference.leaf_carries, pairs),
        (leaf_matches, reference.leaf_matches, singles),
    ):
        expected = slow(u, tables, digits, mask, first=first)
        assert torch.equal(fast(u, tables, digits, mask, first=first), expected)
        assert torch.equal(in_place(fast, u, tables, digits, mask, first=first), expected)


@draws(60)
@given(size_lists, widths, seeds, st.booleans())
def test_nodes_equal_the_reference(sizes, words, seed, first):
    state, rows = 2 * sum(sizes) - 1, num_products(sizes)
    hats, shares, dealt, mask = drawn(words, seed, state, state, rows, 2 * len(sizes) - 1)
    expected = reference.node_products(hats, sizes, dealt)
    assert torch.equal(node_products(hats, sizes, dealt), expected)
    assert torch.equal(in_place(node_products, hats, sizes, dealt), expected)
    arguments = hats, shares, dealt, sizes, mask
    expected = reference.node_carries(*arguments, first=first)
    assert torch.equal(node_carries(*arguments, first=first), expected)
    assert torch.equal(in_place(node_carries, *arguments, first=first), expected)
    found = node_carries(hats ^ shares, *arguments[1:], first=first, received=shares)
    assert torch.equal(found, expected)


def with_a_group_more(state: torch.Tensor) -> torch.Tensor:
    """Rows (G..., P...) with a most significant group of noise."""
    groups, noise = (len(state) + 1) // 2, planes(2, state.shape[1], 99)
    return torch.cat([state[:groups], noise[:1], state[groups:], noise[1:]])


@pytest.mark.parametrize("sizes", [(2,), (3, 2), (4, 4, 3)])
def test_nodes_may_leave_a_group_out(sizes):
    state, rows = 2 * sum(sizes) - 1, num_products(sizes)
    hats, own, dealt, mask = drawn(5, 7, state, state, rows, 2 * len(sizes) - 1)
    more, shares = with_a_group_more(hats), with_a_group_more(own)
    assert torch.equal(node_products(more, sizes, dealt), node_products(hats, sizes, dealt))
    expected = node_carries(hats, own, dealt, sizes, mask, first=True)
    assert torch.equal(node_carries(more, shares, dealt, sizes, mask, first=True), expected)


@draws(60)
@given(size_lists, widths, seeds, st.booleans())
def test_ands_equal_the_reference(sizes, words, seed, first):
    inputs, rows = sum(sizes), num_and_products(sizes)
    hats, shares, dealt, mask = drawn(words, seed, inputs, inputs, rows, len(sizes))
    expected = reference.and_products(hats, sizes, dealt)
    assert torch.equal(and_products(hats, sizes, dealt), expected)
    assert torch.equal(in_place(and_products, hats, sizes, dealt), expected)
    arguments = hats, shares, dealt, sizes, mask
    expected = reference.and_gates(*arguments, first=first)
    assert torch.equal(and_gates(*arguments, first=first), expected)
    assert torch.equal(in_place(and_gates, *arguments, first=first), expected)


# What they mean ---------------------------------------------------------------------------------


@draws(40)
@given(digit_lists, seeds)
def test_leaves_are_the_carries_of_a_sum(digits, seed):
    """U + V of each digit in plain integers, where the pad is one share of the tables."""
    n, width, count = len(digits), sum(digits), 300
    u, v = (ring_tensor(RING64, (count,), seed + i) for i in range(2))
    v = torch.where(torch.arange(count) % 3 == 0, ~u, v)  # digits that add up to 2^s - 1
    pad, one, two, three, four = drawn(
        5, seed + 2, num_table_rows(digits), 2 * n - 1, 2 * n - 1, n, n
    )
    tables = leaf_tables(bit_planes(v, width), digits, pad)
    opened = bit_planes(u, width)
    carries = leaf_carries(opened, pad, digits, one, first=False)
    carries ^= leaf_carries(opened, tables, digits, two, first=True) ^ one ^ two
    matches = leaf_matches(opened, pad, digits, three, first=True)
    matches ^= leaf_matches(opened, tables, digits, four, first=False) ^ three ^ four
    carries, matches = bit_rows(carries)[:, :count], bit_rows(matches)[:, :count]
    for i, (start, size) in enumerate(reference.spans(digits)):
        total = (u >> start) % 2**size + (v >> start) % 2**size
        assert torch.equal(carries[i], total >= 2**size)
        assert torch.equal(matches[i], total == 2**size - 1)
        if i > 0:
            assert torch.equal(carries[n + i - 1], total == 2**size - 1)


@draws(40)
@given(size_lists, seeds)
def test_nodes_are_the_carries_of_their_groups(sizes, seed):
    """The carry rippling through each node's groups, one after the other."""
    groups, nodes = sum(sizes), len(sizes)
    x, left, right, pad, one, two = drawn(
        3, seed, *[2 * groups - 1] * 3, num_products(sizes), 2 * nodes - 1, 2 * nodes - 1
    )
    dealt = node_products(left ^ right, sizes, pad)
    hats = x ^ left ^ right
    out = node_carries(hats, left, pad, sizes, one, first=True)
    out ^= node_carries(hats, right, dealt, sizes, two, first=False) ^ one ^ two
    out, bits = bit_rows(out), bit_rows(x)
    for node, (start, size) in enumerate(reference.spans(sizes)):
        carry, through = bits[start], bits[groups + start - 1]
        for group in range(start + 1, start + size):
            carry = bits[group] ^ (bits[groups + group - 1] & carry)
            through = bits[groups + group - 1] & through
        assert torch.equal(out[node], carry)
        if node > 0:
            assert torch.equal(out[nodes + node - 1], through)


@draws(40)
@given(size_lists, seeds)
def test_ands_are_the_ands_of_their_inputs(sizes, seed):
    inputs = sum(sizes)
    x, left, right, pad, one, two = drawn(
        3, seed, *[inputs] * 3, num_and_products(sizes), len(sizes), len(sizes)
    )
    x[:, 1:] |= planes(inputs, 2, seed + 9) | planes(inputs, 2, seed + 10)  # more ones
    dealt = and_products(left ^ right, sizes, pad)
    hats = x ^ left ^ right
    out = and_gates(hats, left, pad, sizes, one, first=False)
    out ^= and_gates(hats, right, dealt, sizes, two, first=True) ^ one ^ two
    out, bits = bit_rows(out), bit_rows(x)
    for gate, (start, size) in enumerate(reference.spans(sizes)):
        assert torch.equal(out[gate], bits[start : start + size].all(0))


def test_row_counts():
    """The published counts: the complete products of one output are merged into one row."""
    for d in range(2, 10):
        pre_g = (2**d - 2 - (d - 1)) + (2 ** (d - 1) - d) - (d - 1) + 1
        assert num_products((d,)) == pre_g
        assert num_products((2, d)) == 1 + pre_g + 2 ** (d - 1) - 1
        assert num_and_products((d, 2)) == 2**d - 1 - d + 1
    assert [num_products((d,)) for d in (2, 3, 4, 5)] == [1, 4, 13, 34]
    for sizes in product(range(2, 6), repeat=3):
        assert num_products(sizes) == reference.num_products(sizes)
        assert num_and_products(sizes) == reference.num_and_products(sizes)
    assert num_table_rows((4, 4, 1, 7)) == 15 + 15 + 1 + 127


# Threads, devices, arguments --------------------------------------------------------------------


def everything(words: int) -> list[torch.Tensor]:
    digits, sizes = (4, 3), (4, 3)
    leaf = drawn(words, 1, 7, num_table_rows(digits), 3, 2)
    node = drawn(words, 2, 13, 13, num_products(sizes), 3)
    gate = drawn(words, 3, 7, 7, num_and_products(sizes), 2)
    return [
        leaf_tables(leaf[0], digits, leaf[1]),
        leaf_carries(leaf[0], leaf[1], digits, leaf[2], first=True),
        leaf_matches(leaf[0], leaf[1], digits, leaf[3], first=True),
        node_products(node[0], sizes, node[2]),
        node_carries(*node[:3], sizes, node[3], first=True),
        and_products(gate[0], sizes, gate[2]),
        and_gates(*gate[:3], sizes, gate[3], first=True),
    ]


def test_thread_counts_agree():
    before = backend.num_threads()
    try:
        backend.set_num_threads(1)
        one = everything(5003)
        backend.set_num_threads(3)
        three = everything(5003)
    finally:
        backend.set_num_threads(before)
    assert all(torch.equal(a, b) for a, b in zip(one, three, strict=True))


def test_forced_reference(force_reference):
    fast = everything(70)
    force_reference()
    assert all(torch.equal(a, b) for a, b in zip(fast, everything(70), strict=True))


def test_planes_may_be_views():
    u, tables, mask = drawn(20, 4, 7, num_table_rows((4, 3)), 3)
    turned = [x.T.contiguous().T for x in (u, tables, mask)]
    expected = leaf_carries(u, tables, (4, 3), mask, first=True)
    assert torch.equal(leaf_carries(*turned[:2], (4, 3), turned[2], first=True), expected)


def zeros(rows: int, words: int = 2) -> torch.Tensor:
    return torch.zeros(rows, words, dtype=torch.int64)


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda: num_table_rows((8,)), "digits"),
        (lambda: num_table_rows(()), "digits"),
        (lambda: num_products((1, 4)), "sizes"),
        (lambda: num_and_products((10,)), "sizes"),
        (lambda: leaf_tables(zeros(4), (4,), zeros(14)), "pad"),
        (lambda: leaf_tables(zeros(3), (4,), zeros(15)), "v of shape"),
        (lambda: leaf_tables(zeros(4).int(), (4,), zeros(15)), "dtype"),
        (lambda: leaf_tables(zeros(4)[0], (4,), zeros(15)), "planes"),
        (lambda: leaf_tables(zeros(4), (4,), zeros(15), out=zeros(15).int()), "out"),
        (lambda: leaf_tables(zeros(4), (4,), zeros(15), out=zeros(15, 4)[:, ::2]), "out"),
        (lambda: leaf_carries(zeros(4), zeros(15, 3), (4,), zeros(1), first=True), "tables"),
        (lambda: leaf_matches(zeros(4), zeros(15), (4,), zeros(2), first=True), "mask"),
        (lambda: node_products(zeros(4), (2,), zeros(1)), "masks"),
        (lambda: and_products(zeros(2), (2,), zeros(2)), "pad"),
        (lambda: node_carries(zeros(3), zeros(4), zeros(1), (2,), zeros(1), first=True), "shares"),
        (lambda: and_gates(zeros(2), zeros(2), zeros(2), (2,), zeros(1), first=True), "products"),
    ],
)
def test_bad_arguments_are_named(call, field):
    with pytest.raises(ConfigError, match=field):
        call()
