"""The Triton kernels of `gates`: a program computes one digit, node or gate for some words.

A launch covers `count` items (digits, nodes or gates) of size A, then others of size B; B is 0 if
there are none. ROWS_A and ROWS_B are the rows that an item has in its table or among what is dealt.
`place`, `entry` and `row` say how many items, inputs and rows earlier launches have covered. Both
sizes are compiled into one kernel, and a branch that is the same for the whole program chooses.
"""

import triton
import triton.language as tl

from . import circuits, wide_circuits
from .circuits import emit, leaf, leaf_table, read
from .jit import kernel

# Larger nodes and gates are computed for all sets of their inputs at once.
LARGEST_UNROLLED = 6
_UNROLLED = tl.constexpr(LARGEST_UNROLLED)


@triton.jit
def _columns(words: tl.tensor, LANES: tl.constexpr) -> tuple[tl.tensor, tl.tensor]:
    """Returns the word of each lane, and whether there is one."""
    column = tl.program_id(0).to(tl.int64) * LANES + tl.arange(0, LANES)
    return column, column < words


@triton.jit
def _here(
    count: tl.tensor,
    place: tl.tensor,
    entry: tl.tensor,
    row: tl.tensor,
    A: tl.tensor,
    B: tl.tensor,
    ROWS_A: tl.tensor,
    ROWS_B: tl.tensor,
) -> tuple[tl.tensor, tl.tensor, tl.tensor]:
    """Returns the number, the first input and the first row of this program's item."""
    i = tl.program_id(1).to(tl.int64)
    early, late = tl.minimum(i, count), tl.maximum(i - count, 0)
    start = row + early * ROWS_A + late * ROWS_B
    return place + i, entry + early * A + late * B, tl.maximum(start, 0)


@kernel()
def leaf_tables(
    v: tl.tensor,
    pad: tl.tensor,
    out: tl.tensor,
    words: tl.int64,
    count: tl.int64,
    place: tl.int64,
    entry: tl.int64,
    row: tl.int64,
    top: tl.int64,
    top_bit: tl.int64,
    top_row: tl.int64,
    flip: tl.int64,
    A: tl.constexpr,
    B: tl.constexpr,
    ROWS_A: tl.constexpr,
    ROWS_B: tl.constexpr,
    LANES: tl.constexpr,
) -> None:
    """Writes the tables of all digits of V and, for signs, its top bit XOR `flip`; XOR the pad."""
    column, there = _columns(words, LANES)
    digit, bit, start = _here(count, place, entry, row, A, B, ROWS_A, ROWS_B)
    is_top = _is_top(digit, top, words, column)
    value = read(v, top_bit * words + column, is_top) ^ flip
    emit(out, pad, top_row * words + column, value, is_top)
    v += bit * words + column
    pad += start * words + column
    out += start * words + column
    if tl.program_id(1) < count:
        leaf_table(v, pad, out, words, there, A)
    elif B > 0:
        leaf_table(v, pad, out, words, there, B)


@triton.jit
def _is_top(digit: tl.tensor, top: tl.tensor, words: tl.tensor, column: tl.tensor) -> tl.tensor:
    """Returns the lanes of the digit to which the top bits are added; `top` is -1 for none."""
    return column < words * (1 - tl.minimum(tl.abs(digit - top), 1))


@triton.jit
def _leaf(
    u: tl.tensor,
    tables: tl.tensor,
    mask: tl.tensor,
    out: tl.tensor,
    first: tl.tensor,
    tops: tl.tensor,
    digits: tl.tensor,
    digit: tl.tensor,
    words: tl.tensor,
    column: tl.tensor,
    there: tl.tensor,
    SIZE: tl.constexpr,
) -> None:
    """Writes a digit's G (XOR `tops`) and, but for digit 0, P; if `digits` is 0 only P, of all."""
    generate, propagate = leaf(u, tables, first, words, there, SIZE)
    generate ^= tops
    pairs = tl.minimum(digits, 1)
    emit(out, mask, digit * words + column, generate, column < words * pairs)
    also = column < words * tl.minimum(digit + 1 - pairs, 1)
    emit(out, mask, (tl.maximum(digits - 1, 0) + digit) * words + column, propagate, also)


@kernel()
def leaves(
    u: tl.tensor,
    tables: tl.tensor,
    mask: tl.tensor,
    out: tl.tensor,
    words: tl.int64,
    count: tl.int64,
    place: tl.int64,
    entry: tl.int64,
    row: tl.int64,
    first: tl.int64,
    digits: tl.int64,
    top: tl.int64,
    top_bit: tl.int64,
    top_row: tl.int64,
    A: tl.constexpr,
    B: tl.constexpr,
    ROWS_A: tl.constexpr,
    ROWS_B: tl.constexpr,
    LANES: tl.constexpr,
) -> None:
    """Writes shares of the carries of all digits of U + V, XOR the mask; `first` is -1 or 0."""
    column, there = _columns(words, LANES)
    digit, bit, start = _here(count, place, entry, row, A, B, ROWS_A, ROWS_B)
    is_top = _is_top(digit, top, words, column)
    tops = read(tables, top_row * words + column, is_top)
    tops ^= read(u, top_bit * words + column, is_top) & first
    u += bit * words + column
    tables += start * words + column
    if tl.program_id(1) < count:
        _leaf(u, tables, mask, out, first, tops, digits, digit, words, column, there, A)
    elif B > 0:
        _leaf(u, tables, mask, out, first, tops, digits, digit, words, column, there, B)


@triton.jit
def _deal_carry(
    g: tl.tensor,
    p: tl.tensor,
    pad: tl.tensor,
    out: tl.tensor,
    words: tl.tensor,
    there: tl.tensor,
    also: tl.tensor,
    SIZE: tl.constexpr,
) -> None:
    """Writes the dealt rows of a carry node, XOR the pad."""
    if SIZE > _UNROLLED:
        wide_circuits.deal_carry(g, p, pad, out, words, there, also, SIZE)
    else:
        circuits.deal_carry(g, p, pad, out, words, there, also, SIZE)


@kernel()
def node_products(
    masks: tl.tensor,
    pad: tl.tensor,
    out: tl.tensor,
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
) -> None:
    """Writes what is dealt for carry nodes with the lambdas `masks`, XOR the pad."""
    column, there = _columns(words, LANES)
    node, group, start = _here(count, place, entry, row, A, B, ROWS_A, ROWS_B)
    g = masks + group * words + column
    p = masks + (groups + group - 1) * words + column
    pad += start * words + column
    out += start * words + column
    also = column < words * tl.minimum(node, 1)
    if tl.program_id(1) < count:
        _deal_carry(g, p, pad, out, words, there, also, A)
    elif B > 0:
        _deal_carry(g, p, pad, out, words, there, also, B)


@triton.jit
def _deal_and(
    p: tl.tensor,
    pad: tl.tensor,
    out: tl.tensor,
    words: tl.tensor,
    there: tl.tensor,
    SIZE: tl.constexpr,
) -> None:
    """Writes the products of at least two of SIZE lambdas, XOR the pad."""
    if SIZE > _UNROLLED:
        wide_circuits.deal_and(p, pad, out, words, there, SIZE)
    else:
        circuits.deal_and(p, pad, out, words, there, SIZE)


@kernel()
def and_products(
    masks: tl.tensor,
    pad: tl.tensor,
    out: tl.tensor,
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
) -> None:
    """Writes what is dealt for AND gates with the lambdas `masks`, XOR the pad."""
    column, there = _columns(words, LANES)
    _, group, start = _here(count, place, entry, row, A, B, ROWS_A, ROWS_B)
    p = masks + group * words + column
    pad += start * words + column
    out += start * words + column
    if tl.program_id(1) < count:
        _deal_and(p, pad, out, words, there, A)
    elif B > 0:
        _deal_and(p, pad, out, words, there, B)


@triton.jit
def _carry(
    hats: tl.tensor,
    others: tl.tensor,
    shares: tl.tensor,
    dealt: tl.tensor,
    mask: tl.tensor,
    out: tl.tensor,
    first: tl.tensor,
    nodes: tl.tensor,
    node: tl.tensor,
    p: tl.tensor,
    words: tl.tensor,
    column: tl.tensor,
    there: tl.tensor,
    SIZE: tl.constexpr,
    PAIR: tl.constexpr,
) -> None:
    """Writes the G of a node and, but for node 0, its P; P's rows are `p` words after G's."""
    also = column < words * tl.minimum(node, 1)
    if SIZE > _UNROLLED:
        generate, propagate = wide_circuits.carry(
            hats, others, shares, p, dealt, first, words, there, also, SIZE, PAIR
        )
    else:
        generate, propagate = circuits.carry(
            hats, others, shares, p, dealt, first, words, there, also, SIZE, PAIR
        )
    emit(out, mask, node * words + column, generate, there)
    emit(out, mask, (nodes + node - 1) * words + column, propagate, also)


@kernel()
def node_carries(
    hats: tl.tensor,
    others: tl.tensor,
    shares: tl.tensor,
    dealt: tl.tensor,
    mask: tl.tensor,
    out: tl.tensor,
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
    PAIR: tl.constexpr,
) -> None:
    """Writes shares of the carries of nodes, XOR the mask; hats are `hats ^ others` if PAIR."""
    column, there = _columns(words, LANES)
    node, group, start = _here(count, place, entry, row, A, B, ROWS_A, ROWS_B)
    hats += group * words + column
    others += group * words + column
    shares += group * words + column
    dealt += start * words + column
    p = (groups - 1) * words
    if tl.program_id(1) < count:
        _carry(
            hats,
            others,
            shares,
            dealt,
            mask,
            out,
            first,
            nodes,
            node,
            p,
            words,
            column,
            there,
            A,
            PAIR,
        )
    elif B > 0:
        _carry(
            hats,
            others,
            shares,
            dealt,
            mask,
            out,
            first,
            nodes,
            node,
            p,
            words,
            column,
            there,
            B,
            PAIR,
        )


@triton.jit
def _and_all(
    hats: tl.tensor,
    shares: tl.tensor,
    dealt: tl.tensor,
    first: tl.tensor,
    words: tl.tensor,
    there: tl.tensor,
    SIZE: tl.constexpr,
) -> tl.tensor:
    """Returns a share of the AND of SIZE inputs."""
    if SIZE > _UNROLLED:
        result = wide_circuits.and_all(hats, shares, dealt, first, words, there, SIZE)
    else:
        result = circuits.and_all(hats, shares, dealt, first, words, there, SIZE)
    return result


@kernel()
def and_gates(
    hats: tl.tensor,
    shares: tl.tensor,
    dealt: tl.tensor,
    mask: tl.tensor,
    out: tl.tensor,
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
) -> None:
    """Writes shares of the ANDs of gates, XOR the mask; `first` is -1 or 0."""
    column, there = _columns(words, LANES)
    gate, group, start = _here(count, place, entry, row, A, B, ROWS_A, ROWS_B)
    hats += group * words + column
    shares += group * words + column
    dealt += start * words + column
    at = gate * words + column
    if tl.program_id(1) < count:
        emit(out, mask, at, _and_all(hats, shares, dealt, first, words, there, A), there)
    elif B > 0:
        emit(out, mask, at, _and_all(hats, shares, dealt, first, words, there, B), there)
