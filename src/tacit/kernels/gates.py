"""Gates on masked bit planes, without communication: carries of sums, and ANDs of high fan-in.

Planes are int64 tensors of shape (planes, words); bit j of word b belongs to element 64 b + j
(`planes`), and every element is computed on its own. A wire is x = hat ^ lambda; the words are
explained in `tacit.kernels`. With G = "the digits produce a carry" and P = "they pass one on":

leaves  Let x = U + V mod 2^w, cut into digits of s bits. For each digit of V the one-hot table
        E_a = [2^s - 1 - V == a] is dealt. P = [U + V == 2^s - 1] is E_U, and G = [U + V >= 2^s] is
        the XOR of E_a over a < U: linear in the table, so shares of the table give shares of both.
nodes   G = G_1 ^ P_1 G_2 ^ P_1 P_2 G_3 ^ ... and P = P_1 P_2 ... combine neighbouring groups of
        digits, of which 1 is the most significant.
gates   A product of wires is prod (hat_i ^ lambda_i) = XOR over subsets S of
        (product of lambda_i in S) (product of hat_i not in S). The products of lambdas of two or
        more wires are dealt; then a share of the result is linear in what is shared.

Functions that deal XOR a pad on their result. Functions of shares XOR `mask`, their share of the
new wire's lambda, on the share of the result: the XOR of what they return for all shares is the hat
of the new wire. `out` may be given to write to, and may be the pad or mask itself; it is returned.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from ..errors import ConfigError
from ..ring.reference import gates as reference
from .backend import address, gpu_for, native_for
from .planes import bit_planes, check_window, checked_planes, num_columns, output_like

MAX_DIGIT = 7
MAX_FAN_IN = 9


class RowCounts(NamedTuple):
    """How many rows of planes a list of nodes or gates has."""

    dealt: int
    inputs: int
    outputs: int


@cache
def table_size(digits: tuple[int, ...]) -> tuple[int, int]:
    """Returns how many bits these digits have together, and how many rows their tables."""
    if not digits or min(digits) < 1 or max(digits) > MAX_DIGIT:
        raise ConfigError(f"digits={digits}", limit=f"each has 1..{MAX_DIGIT} bits")
    return sum(digits), reference.num_table_rows(digits)


@cache
def _node_rows(sizes: tuple[int, ...]) -> RowCounts:
    # G of all groups, then P of all but the least significant: nothing is carried into that one.
    _check_sizes(sizes)
    dealt = sum(2 ** (size + 1) - 3 * size for size in sizes) - (2 ** (sizes[0] - 1) - 1)
    return RowCounts(dealt, 2 * sum(sizes) - 1, 2 * len(sizes) - 1)


@cache
def _and_rows(sizes: tuple[int, ...]) -> RowCounts:
    _check_sizes(sizes)
    dealt = sum(2**size - 1 - size for size in sizes)
    return RowCounts(dealt, sum(sizes), len(sizes))


def _check_sizes(sizes: tuple[int, ...]) -> None:
    if not sizes or min(sizes) < 2 or max(sizes) > MAX_FAN_IN:
        raise ConfigError(f"sizes={sizes}", limit=f"each is 2..{MAX_FAN_IN}")


def num_table_rows(digits: Sequence[int]) -> int:
    """Returns how many rows `leaf_tables` makes for these digits: 2^s - 1 for one of s bits."""
    return table_size(tuple(digits))[1]


def num_products(sizes: Sequence[int]) -> int:
    """Returns how many rows `node_products` makes for carry nodes of these sizes.

    A node of size d has 2^(d+1) - 3 d rows; the first node, which has no P, 2^(d-1) - 1 fewer.
    """
    return _node_rows(tuple(sizes)).dealt


def num_and_products(sizes: Sequence[int]) -> int:
    """Returns how many rows `and_products` makes: 2^d - 1 - d for a gate of size d."""
    return _and_rows(tuple(sizes)).dealt


def leaf_tables(
    v: Tensor, digits: Sequence[int], pad: Tensor, *, out: Tensor | None = None
) -> Tensor:
    """Returns the one-hot tables of the digits of V, XOR the pad: (num_table_rows(digits), words).

    `v` has the planes of V, cut into digits of 1..7 bits, least significant first. A digit of s
    bits has the rows E_a = [2^s - 1 - V_digit == a] for a = 1..2^s - 1. E_0 is left out, because
    exactly one entry is 1: E_0 = 1 ^ E_1 ^ E_2 ^ ...
    """
    digits = tuple(digits)
    bits, rows = table_size(digits)
    words = num_columns(v)
    v, pad = checked_planes(words, ("v", v, bits), ("pad", pad, rows))
    out = output_like(out, pad)
    if gpu := gpu_for(v, pad, out):
        return gpu.leaf_tables(v, digits, pad, out)
    native = native_for(v, pad, out)
    if native is None:
        return out.copy_(reference.leaf_tables(v, digits, pad))
    native.leaf_tables(address(v), digits, address(pad), address(out), words)
    return out


def leaf_carries(
    u: Tensor,
    tables: Tensor,
    digits: Sequence[int],
    mask: Tensor,
    *,
    first: bool,
    out: Tensor | None = None,
) -> Tensor:
    """Returns shares of the carries of U + V in each of D digits, XOR the mask: (2 D - 1, words).

    The rows are G_0..G_{D-1}, G = [U + V >= 2^s], then P_1..P_{D-1}, P = [U + V == 2^s - 1], where
    U and V are those of one digit. `u` has the planes of U, which is the same for all shares;
    `tables` is a share of what `leaf_tables` makes for V, without the pad.
    """
    return _leaves(u, tables, digits, mask, first, out, carries=True)


def leaf_matches(
    u: Tensor,
    tables: Tensor,
    digits: Sequence[int],
    mask: Tensor,
    *,
    first: bool,
    out: Tensor | None = None,
) -> Tensor:
    """Returns shares of P = [U + V == 2^s - 1] of each digit, XOR the mask: (D, words).

    Arguments are those of `leaf_carries`.
    """
    return _leaves(u, tables, digits, mask, first, out, carries=False)


def node_products(
    masks: Tensor, sizes: Sequence[int], pad: Tensor, *, out: Tensor | None = None
) -> Tensor:
    """Returns the products of lambdas that carry nodes need, XOR the pad: (num_products, words).

    `masks` are the lambdas of the rows that `node_carries` reads. The rows come node by node, in
    the order of `tacit.ring.reference.gates.carry_rows`.
    """
    sizes = tuple(sizes)
    rows = _node_rows(sizes)
    if masks.shape[0] == rows.inputs + 2:  # one group more, which no node takes
        if gpu_for(masks, pad):
            rows = rows._replace(inputs=rows.inputs + 2)
        else:
            masks = _without_top_group(masks, rows.inputs)
    return _deal("node_products", masks, sizes, pad, out, rows)


def and_products(
    masks: Tensor, sizes: Sequence[int], pad: Tensor, *, out: Tensor | None = None
) -> Tensor:
    """Returns the products of lambdas that AND gates need, XOR the pad: (num_and_products, words).

    The rows of a gate are the products of every two or more of its inputs' lambdas. A row's set of
    inputs is a binary number whose lowest bit is the first input, and the rows ascend by it.
    """
    sizes = tuple(sizes)
    return _deal("and_products", masks, sizes, pad, out, _and_rows(sizes))


def node_carries(
    hats: Tensor,
    shares: Tensor,
    products: Tensor,
    sizes: Sequence[int],
    mask: Tensor,
    *,
    first: bool,
    received: Tensor | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Returns shares of the carries of J nodes, XOR the mask: rows G_0..G_{J-1}, P_1..P_{J-1}.

    `hats` and `shares` (of the lambdas) have the rows G_0..G_{D-1}, P_1..P_{D-1} of D = sum(sizes)
    groups, group 0 least significant. Node j combines sizes[j] (2..9) neighbouring groups, numbered
    1..d from the most significant: G = G_1 ^ P_1 G_2 ^ P_1 P_2 G_3 ^ ..., P = P_1 ... P_d.
    `products` is a share of what `node_products` makes, without the pad. With `received` the hats
    are `hats ^ received`. The inputs may have one group more, the most significant, which no node
    takes.
    """
    sizes = tuple(sizes)
    rows = _node_rows(sizes)
    more = {}
    if gpu_for(hats, shares, products, mask):
        if hats.shape[0] == rows.inputs + 2:
            rows = rows._replace(inputs=rows.inputs + 2)
        if received is not None:
            given = ("received", received, rows.inputs)
            [more["received"]] = checked_planes(num_columns(hats), given)
    else:
        hats = hats if received is None else hats ^ received
        if hats.shape[0] == rows.inputs + 2:
            hats = _without_top_group(hats, rows.inputs)
            shares = _without_top_group(shares, rows.inputs)
    return _evaluate("node_carries", hats, shares, products, sizes, mask, first, out, rows, **more)


def and_gates(
    hats: Tensor,
    shares: Tensor,
    products: Tensor,
    sizes: Sequence[int],
    mask: Tensor,
    *,
    first: bool,
    out: Tensor | None = None,
) -> Tensor:
    """Returns shares of the ANDs of J gates, XOR the mask: (J, words).

    `hats` and `shares` (of the lambdas) have the inputs of the gates, sizes[j] (2..9) rows for
    gate j; `products` is a share of what `and_products` makes, without the pad.
    """
    sizes = tuple(sizes)
    rows = _and_rows(sizes)
    return _evaluate("and_gates", hats, shares, products, sizes, mask, first, out, rows)


def _leaves(
    u: Tensor,
    tables: Tensor,
    digits: Sequence[int],
    mask: Tensor,
    first: bool,
    out: Tensor | None,
    *,
    carries: bool,
) -> Tensor:
    digits = tuple(digits)
    bits, rows = table_size(digits)
    count, words = len(digits), num_columns(u)
    u, tables, mask = checked_planes(
        words,
        ("u", u, bits),
        ("tables", tables, rows),
        ("mask", mask, 2 * count - 1 if carries else count),
    )
    out = output_like(out, mask)
    if gpu := gpu_for(u, tables, mask, out):
        fast = gpu.leaf_carries if carries else gpu.leaf_matches
        return fast(u, tables, digits, mask, out, first=first)
    native = native_for(u, tables, mask, out)
    if native is None:
        slow = reference.leaf_carries if carries else reference.leaf_matches
        return out.copy_(slow(u, tables, digits, mask, first=first))
    fast = native.leaf_carries if carries else native.leaf_matches
    addresses = [address(u), address(tables), address(mask), address(out)]
    fast(addresses, digits, first, words)
    return out


def _deal(
    name: str,
    masks: Tensor,
    sizes: tuple[int, ...],
    pad: Tensor,
    out: Tensor | None,
    rows: RowCounts,
) -> Tensor:
    """Calls the function of this name, which makes products of lambdas."""
    words = num_columns(masks)
    masks, pad = checked_planes(words, ("masks", masks, rows.inputs), ("pad", pad, rows.dealt))
    out = output_like(out, pad)
    if gpu := gpu_for(masks, pad, out):
        return getattr(gpu, name)(masks, sizes, pad, out)
    native = native_for(masks, pad, out)
    if native is None:
        return out.copy_(getattr(reference, name)(masks, sizes, pad))
    getattr(native, name)(address(masks), sizes, address(pad), address(out), words)
    return out


def _evaluate(
    name: str,
    hats: Tensor,
    shares: Tensor,
    products: Tensor,
    sizes: tuple[int, ...],
    mask: Tensor,
    first: bool,
    out: Tensor | None,
    rows: RowCounts,
    **more: Tensor,
) -> Tensor:
    """Calls the function of this name, which makes shares of the outputs of nodes or gates."""
    words = num_columns(hats)
    hats, shares, products, mask = checked_planes(
        words,
        ("hats", hats, rows.inputs),
        ("shares", shares, rows.inputs),
        ("products", products, rows.dealt),
        ("mask", mask, rows.outputs),
    )
    out = output_like(out, mask)
    if gpu := gpu_for(hats, shares, products, mask, out):
        return getattr(gpu, name)(hats, shares, products, sizes, mask, out, first=first, **more)
    native = native_for(hats, shares, products, mask, out)
    if native is None:
        slow = getattr(reference, name)
        return out.copy_(slow(hats, shares, products, sizes, mask, first=first))
    addresses = [address(x) for x in (hats, shares, products, mask, out)]
    getattr(native, name)(addresses, sizes, first, words)
    return out


def _without_top_group(planes: Tensor, inputs: int) -> Tensor:
    """The rows G..., P... but for those of the most significant group."""
    groups = (inputs + 1) // 2
    return torch.cat([planes[:groups], planes[groups + 1 : 2 * groups]])


# Signs --------------------------------------------------------------------------------------------
#
# If |x| < 2^(w-1), the sign of x is bit w - 1 of x = opened + mask mod 2^w: the XOR of the top bits
# of `opened` and `mask`, and of the carry out of the w - 1 bits below them. Those are cut into
# digits (leaves), with U = opened and V = mask. The final carry is G_1 ^ P_1 (...), where G_1, that
# of the most significant digit, is a summand of its own. So the top bits are XORed to G_1 here, and
# what the last node returns is the sign.


def sign_planes(x: Tensor, digits: Sequence[int], *, shift: int = 0, up: bool = False) -> Tensor:
    """Returns the low w bits of x / 2^shift, rounded down or `up`, as planes: (w, words).

    `digits` and a top bit cover w bits. One term of a sum is rounded down (opened >> shift), the
    other up (-(-mask >> shift)): they add up to floor((opened + mask) / 2^shift) or one more.
    """
    width = table_size(tuple(digits))[0] + 1
    check_window(x, width, shift)
    if not (up and shift):
        return bit_planes(x, width, shift)
    if gpu := gpu_for(x):
        return gpu.quotient_planes(x, width, shift)
    return bit_planes(-(-x >> shift), width)


def sign_tables(v: Tensor, digits: Sequence[int], pad: Tensor, *, negate: bool = False) -> Tensor:
    """Replaces `pad` with the tables of V, then its top bit, all XOR the pad; returns it.

    `v` has the planes of V, of `sign_planes`; the shape of the result is
    (num_table_rows(digits) + 1, words). With `negate` the top bit is negated, which negates the
    sign.
    """
    digits = tuple(digits)
    bits, rows = table_size(digits)
    v, plain = checked_planes(num_columns(v), ("v", v, bits + 1), ("pad", pad, rows + 1))
    if plain is not pad:
        raise ConfigError("pad", limit="a contiguous tensor is needed, because it is written to")
    if gpu := gpu_for(v, pad):
        return gpu.sign_tables(v, digits, pad, negate=negate)
    leaf_tables(v[:-1], digits, pad[:-1], out=pad[:-1])
    pad[-1].bitwise_xor_(~v[-1] if negate else v[-1])
    return pad


def sign_leaves(
    u: Tensor, tables: Tensor, digits: Sequence[int], mask: Tensor, *, first: bool
) -> Tensor:
    """Returns `leaf_carries` of the planes of U, of `sign_planes`, with the top bits in the last G.

    `tables` is a share of what `sign_tables` makes, without the pad. The shape is that of `mask`:
    (2 D - 1, words) for D digits.
    """
    digits = tuple(digits)
    bits, rows = table_size(digits)
    count = len(digits)
    u, tables, mask = checked_planes(
        num_columns(u),
        ("u", u, bits + 1),
        ("tables", tables, rows + 1),
        ("mask", mask, 2 * count - 1),
    )
    if gpu := gpu_for(u, tables, mask):
        return gpu.sign_leaves(u, tables, digits, mask, first=first)
    message = leaf_carries(u[:-1], tables[:-1], digits, mask, first=first)
    top = message[count - 1].bitwise_xor_(tables[-1])
    if first:
        top.bitwise_xor_(u[-1])
    return message
