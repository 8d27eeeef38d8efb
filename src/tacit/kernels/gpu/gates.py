"""Gates on masked bit planes (`tacit.kernels.gates`), on contiguous planes.

A program does one digit, node or gate for some words. The sizes of a list are nearly always equal
but for the last, so that two sizes are compiled together and one start serves the whole list.
"""

from collections.abc import Sequence
from functools import cache
from itertools import groupby

import triton
import triton.language as tl
from torch import Tensor

from ...ring.reference import gates as reference
from .circuits import and_all, carry, deal_and, deal_carry, emit, leaf, leaf_table
from .launch import Kernel, blocks, kernel

LANES = 128

# Larger nodes take minutes to compile, and no plan of the protocols has them.
LARGEST_NODE, LARGEST_GATE = 6, 7

Numbers = tuple[int, ...]


def leaf_tables(v: Tensor, digits: Sequence[int], pad: Tensor, out: Tensor) -> Tensor:
    """`out`, with the one-hot tables of the digits of V, XOR the pad."""
    return _start(_leaf_tables, "table", (v, pad, out), digits, ())


def leaf_carries(
    u: Tensor, tables: Tensor, digits: Sequence[int], mask: Tensor, out: Tensor, *, first: bool
) -> Tensor:
    """`out`, with the shares of the G of all digits, then of the P of all but digit 0."""
    return _start(_leaves, "table", (u, tables, mask, out), digits, (-first, len(digits)))


def leaf_matches(
    u: Tensor, tables: Tensor, digits: Sequence[int], mask: Tensor, out: Tensor, *, first: bool
) -> Tensor:
    """`out`, with the shares of the P of all digits."""
    return _start(_leaves, "table", (u, tables, mask, out), digits, (-first, 0))


def node_products(masks: Tensor, sizes: Sequence[int], pad: Tensor, out: Tensor) -> Tensor:
    """`out`, with what is dealt for carry nodes, XOR the pad."""
    if max(sizes) > LARGEST_NODE:
        return out.copy_(reference.node_products(masks, sizes, pad))
    return _start(_node_products, "carry", (masks, pad, out), sizes, (sum(sizes),))


def and_products(masks: Tensor, sizes: Sequence[int], pad: Tensor, out: Tensor) -> Tensor:
    """`out`, with what is dealt for AND gates, XOR the pad."""
    if max(sizes) > LARGEST_GATE:
        return out.copy_(reference.and_products(masks, sizes, pad))
    return _start(_and_products, "and", (masks, pad, out), sizes, ())


def node_carries(
    hats: Tensor,
    shares: Tensor,
    products: Tensor,
    sizes: Sequence[int],
    mask: Tensor,
    out: Tensor,
    *,
    first: bool,
) -> Tensor:
    """`out`, with the shares of the G of all nodes, then of the P of all but node 0."""
    if max(sizes) > LARGEST_NODE:
        slow = reference.node_carries(hats, shares, products, sizes, mask, first=first)
        return out.copy_(slow)
    pointers = (hats, shares, products, mask, out)
    return _start(_node_carries, "carry", pointers, sizes, (-first, sum(sizes), len(sizes)))


def and_gates(
    hats: Tensor,
    shares: Tensor,
    products: Tensor,
    sizes: Sequence[int],
    mask: Tensor,
    out: Tensor,
    *,
    first: bool,
) -> Tensor:
    """`out`, with the shares of the AND of each gate's inputs."""
    if max(sizes) > LARGEST_GATE:
        return out.copy_(reference.and_gates(hats, shares, products, sizes, mask, first=first))
    return _start(_and_gates, "and", (hats, shares, products, mask, out), sizes, (-first,))


def _start(
    which: Kernel, kind: str, pointers: tuple[Tensor, ...], sizes: Sequence[int], more: Numbers
) -> Tensor:
    """The last of the pointers, after the starts for all sizes."""
    words = pointers[0].shape[1]
    if words:
        for number, places, constants in plan(kind, tuple(sizes)):
            grid = (blocks(words, LANES), number, 1)
            which(grid, (*pointers, words, *places, *more), (*constants, LANES))
    return pointers[-1]


def num_rows(kind: str, size: int) -> int:
    """How many rows a digit has in its table, or a node or gate among what is dealt for it."""
    half = 1 << (size - 1)
    return {"table": 2 * half - 1, "and": 2 * half - 1 - size, "carry": 4 * half - 3 * size}[kind]


@cache
def plan(kind: str, sizes: Numbers) -> list[tuple[int, Numbers, Numbers]]:
    """The starts for a list: each for a run of equal sizes and the run after it.

    A start is the number of its places; how many of them the first run has, and how many places,
    inputs and rows come before; and the two sizes, 0 where there is no second run, with the rows of
    each. Carry node 0 has no rows for P: those of all others begin as many earlier.
    """
    runs = [(size, len(list(equal))) for size, equal in groupby(sizes)]
    place, entry = 0, 0
    row = 1 - (1 << (sizes[0] - 1)) if kind == "carry" else 0
    starts: list[tuple[int, Numbers, Numbers]] = []
    for i in range(0, len(runs), 2):
        (size, count), (other, rest) = (*runs[i : i + 2], (0, 0))[:2]
        rows = (num_rows(kind, size), num_rows(kind, other) if rest else 0)
        starts.append((count + rest, (count, place, entry, row), (size, other, *rows)))
        place += count + rest
        entry += count * size + rest * other
        row += count * rows[0] + rest * rows[1]
    return starts


@triton.jit
def _columns(words, LANES: tl.constexpr):
    """The word of each lane, and whether there is one."""
    column = tl.program_id(0).to(tl.int64) * LANES + tl.arange(0, LANES)
    return column, column < words


@triton.jit
def _here(count, place, entry, row, A, B, ROWS_A, ROWS_B):
    """Number, first input and first row of this program's digit, node or gate."""
    i = tl.program_id(1).to(tl.int64)
    early, late = tl.minimum(i, count), tl.maximum(i - count, 0)
    start = row + early * ROWS_A + late * ROWS_B
    return place + i, entry + early * A + late * B, tl.maximum(start, 0)


@kernel()
def _leaf_tables(
    v,
    pad,
    out,
    words: tl.int64,
    count: tl.int64,
    place: tl.int64,
    entry: tl.int64,
    row: tl.int64,
    A: tl.constexpr,
    B: tl.constexpr,
    ROWS_A: tl.constexpr,
    ROWS_B: tl.constexpr,
    LANES: tl.constexpr,
):
    column, there = _columns(words, LANES)
    _, bit, start = _here(count, place, entry, row, A, B, ROWS_A, ROWS_B)
    v += bit * words + column
    pad += start * words + column
    out += start * words + column
    if tl.program_id(1) < count:
        leaf_table(v, pad, out, words, there, A)
    elif B > 0:
        leaf_table(v, pad, out, words, there, B)


@triton.jit
def _leaf(u, tables, mask, out, first, digits, digit, words, column, there, SIZE: tl.constexpr):
    """Writes a digit's G and P, or only P where `digits` is 0."""
    generate, propagate = leaf(u, tables, first, words, there, SIZE)
    pairs = tl.minimum(digits, 1)
    emit(out, mask, digit * words + column, generate, column < words * pairs)
    also = column < words * tl.minimum(digit + 1 - pairs, 1)
    emit(out, mask, (tl.maximum(digits - 1, 0) + digit) * words + column, propagate, also)


@kernel()
def _leaves(
    u,
    tables,
    mask,
    out,
    words: tl.int64,
    count: tl.int64,
    place: tl.int64,
    entry: tl.int64,
    row: tl.int64,
    first: tl.int64,
    digits: tl.int64,
    A: tl.constexpr,
    B: tl.constexpr,
    ROWS_A: tl.constexpr,
    ROWS_B: tl.constexpr,
    LANES: tl.constexpr,
):
    column, there = _columns(words, LANES)
    digit, bit, start = _here(count, place, entry, row, A, B, ROWS_A, ROWS_B)
    u += bit * words + column
    tables += start * words + column
    if tl.program_id(1) < count:
        _leaf(u, tables, mask, out, first, digits, digit, words, column, there, A)
    elif B > 0:
        _leaf(u, tables, mask, out, first, digits, digit, words, column, there, B)


@kernel()
def _node_products(
    masks,
    pad,
    out,
    words: tl.int64,
    count: tl.int64,
    place: tl.int64,
    entry: tl.int64,
    row: tl.int64,
    groups: tl.int64,
    A: tl.constexpr,
    B: tl.constexpr,
    ROWS_A: tl.constexpr,
    ROWS_B: tl.constexpr,
    LANES: tl.constexpr,
):
    column, there = _columns(words, LANES)
    node, group, start = _here(count, place, entry, row, A, B, ROWS_A, ROWS_B)
    g = masks + group * words + column
    p = masks + (groups + group - 1) * words + column
    pad += start * words + column
    out += start * words + column
    also = column < words * tl.minimum(node, 1)
    if tl.program_id(1) < count:
        deal_carry(g, p, pad, out, words, there, also, A)
    elif B > 0:
        deal_carry(g, p, pad, out, words, there, also, B)


@kernel()
def _and_products(
    masks,
    pad,
    out,
    words: tl.int64,
    count: tl.int64,
    place: tl.int64,
    entry: tl.int64,
    row: tl.int64,
    A: tl.constexpr,
    B: tl.constexpr,
    ROWS_A: tl.constexpr,
    ROWS_B: tl.constexpr,
    LANES: tl.constexpr,
):
    column, there = _columns(words, LANES)
    _, group, start = _here(count, place, entry, row, A, B, ROWS_A, ROWS_B)
    p = masks + group * words + column
    pad += start * words + column
    out += start * words + column
    if tl.program_id(1) < count:
        deal_and(p, pad, out, words, there, A)
    elif B > 0:
        deal_and(p, pad, out, words, there, B)


@triton.jit
def _carry(
    hats, shares, dealt, mask, out, first, nodes, node, p, words, column, there, SIZE: tl.constexpr
):
    """Writes the G of a node and, but for node 0, its P; its rows of p are `p` after those of g."""
    also = column < words * tl.minimum(node, 1)
    generate, propagate = carry(
        hats, hats + p, shares, shares + p, dealt, first, words, there, also, SIZE
    )
    emit(out, mask, node * words + column, generate, there)
    emit(out, mask, (nodes + node - 1) * words + column, propagate, also)


@kernel()
def _node_carries(
    hats,
    shares,
    dealt,
    mask,
    out,
    words: tl.int64,
    count: tl.int64,
    place: tl.int64,
    entry: tl.int64,
    row: tl.int64,
    first: tl.int64,
    groups: tl.int64,
    nodes: tl.int64,
    A: tl.constexpr,
    B: tl.constexpr,
    ROWS_A: tl.constexpr,
    ROWS_B: tl.constexpr,
    LANES: tl.constexpr,
):
    column, there = _columns(words, LANES)
    node, group, start = _here(count, place, entry, row, A, B, ROWS_A, ROWS_B)
    hats += group * words + column
    shares += group * words + column
    dealt += start * words + column
    p = (groups - 1) * words
    if tl.program_id(1) < count:
        _carry(hats, shares, dealt, mask, out, first, nodes, node, p, words, column, there, A)
    elif B > 0:
        _carry(hats, shares, dealt, mask, out, first, nodes, node, p, words, column, there, B)


@kernel()
def _and_gates(
    hats,
    shares,
    dealt,
    mask,
    out,
    words: tl.int64,
    count: tl.int64,
    place: tl.int64,
    entry: tl.int64,
    row: tl.int64,
    first: tl.int64,
    A: tl.constexpr,
    B: tl.constexpr,
    ROWS_A: tl.constexpr,
    ROWS_B: tl.constexpr,
    LANES: tl.constexpr,
):
    column, there = _columns(words, LANES)
    gate, group, start = _here(count, place, entry, row, A, B, ROWS_A, ROWS_B)
    hats += group * words + column
    shares += group * words + column
    dealt += start * words + column
    at = gate * words + column
    if tl.program_id(1) < count:
        emit(out, mask, at, and_all(hats, shares, dealt, first, words, there, A), there)
    elif B > 0:
        emit(out, mask, at, and_all(hats, shares, dealt, first, words, there, B), there)
