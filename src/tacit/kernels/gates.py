"""Gates on masked bit planes, without communication: carries and ANDs of high fan-in.

Planes are int64 tensors of shape (planes, words); bit j of word b belongs to element 64 b + j
(`planes`). A wire x is masked: x = hat ^ lambda; the evaluators know hat and XOR shares of lambda,
the dealer knows lambda. The functions of the dealer (`leaf_tables`, `node_products`,
`and_products`) XOR a pad on what they make: the pad is one evaluator's share, the result the
other's. Those of the evaluators XOR a mask on their share of a result: the XOR of what all of them
return is the hat of the new wire. `first` is true at exactly one evaluator.

`out` may be given to write to, and may be the pad or mask itself; it is returned.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import torch
from torch import Tensor

from ..errors import ConfigError
from ..ring.reference import gates as reference
from .backend import gpu_for, native_for

MAX_DIGIT = 7
MAX_FAN_IN = 9


def num_table_rows(digits: Sequence[int]) -> int:
    """How many rows `leaf_tables` has for these digits: 2^s - 1 for each."""
    return _table_rows(_checked_digits(digits))


def num_products(sizes: Sequence[int]) -> int:
    """How many rows `node_products` has for carry nodes of these sizes."""
    return _node_rows(_checked_sizes(sizes))


def num_and_products(sizes: Sequence[int]) -> int:
    """How many rows `and_products` has for gates of these sizes: 2^d - 1 - d for each."""
    return _and_rows(_checked_sizes(sizes))


def leaf_tables(
    v: Tensor, digits: Sequence[int], pad: Tensor, *, out: Tensor | None = None
) -> Tensor:
    """The one-hot tables of the digits of V, XOR the pad: (num_table_rows(digits), words).

    `v` has the planes of V, cut in digits of 1..7 bits, least significant first. A digit of s bits
    has the rows [2^s - 1 - V_digit == a] for a = 1..2^s - 1.
    """
    digits = _checked_digits(digits)
    words = _words(v)
    v = _planes("v", v, sum(digits), words)
    pad = _planes("pad", pad, _table_rows(digits), words)
    out = _output(out, pad)
    if gpu := gpu_for(v, pad, out):
        return gpu.leaf_tables(v, digits, pad, out)
    native = native_for(v, pad, out)
    if native is None:
        return out.copy_(reference.leaf_tables(v, digits, pad))
    native.leaf_tables(v.data_ptr(), digits, pad.data_ptr(), out.data_ptr(), words)
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
    """Shares of the carries of U + V digit by digit, XOR the mask: (2 D - 1, words).

    Rows G_0..G_{D-1}, G = [U + V >= 2^s], then P_1..P_{D-1}, P = [U + V == 2^s - 1]; all of a
    digit. `u` has the planes of U, `tables` is a share of the tables of V without their pad.
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
    """Shares of P = [U + V == 2^s - 1] of each digit, XOR the mask: (D, words)."""
    return _leaves(u, tables, digits, mask, first, out, carries=False)


def node_products(
    masks: Tensor, sizes: Sequence[int], pad: Tensor, *, out: Tensor | None = None
) -> Tensor:
    """What the dealer deals for carry nodes, XOR the pad: (num_products(sizes), words).

    `masks` are the lambdas of the rows that `node_carries` reads. The order of the rows is that of
    `tacit.ring.reference.gates.carry_rows`, node by node.
    """
    sizes = _checked_sizes(sizes)
    rows = _node_rows(sizes), 2 * sum(sizes) - 1
    return _deal("node_products", masks, sizes, pad, out, rows)


def and_products(
    masks: Tensor, sizes: Sequence[int], pad: Tensor, *, out: Tensor | None = None
) -> Tensor:
    """What the dealer deals for AND gates, XOR the pad: (num_and_products(sizes), words).

    Gate by gate all products of two or more of its inputs' masks, in the order of binary numbers
    whose lowest bit is the first input.
    """
    sizes = _checked_sizes(sizes)
    return _deal("and_products", masks, sizes, pad, out, (_and_rows(sizes), sum(sizes)))


def node_carries(
    hats: Tensor,
    shares: Tensor,
    products: Tensor,
    sizes: Sequence[int],
    mask: Tensor,
    *,
    first: bool,
    out: Tensor | None = None,
) -> Tensor:
    """Shares of the carries of J nodes, XOR the mask: rows G_0..G_{J-1}, P_1..P_{J-1}.

    `hats` and `shares` (of the lambdas) have the rows G_0..G_{D-1}, P_1..P_{D-1} of D = sum(sizes)
    groups, group 0 least significant. Node j combines sizes[j] (2..9) neighbouring groups, numbered
    1..d from the most significant: G = G_1 ^ P_1 G_2 ^ P_1 P_2 G_3 ^ ..., P = P_1 ... P_d.
    """
    sizes = _checked_sizes(sizes)
    rows = _node_rows(sizes), 2 * sum(sizes) - 1, 2 * len(sizes) - 1
    return _evaluate("node_carries", hats, shares, products, sizes, mask, first, out, rows)


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
    """Shares of the ANDs of J gates, XOR the mask: (J, words).

    `hats` and `shares` (of the lambdas) have the inputs of the gates, sizes[j] (2..9) rows for
    gate j; `products` is a share of what `and_products` makes, without its pad.
    """
    sizes = _checked_sizes(sizes)
    rows = _and_rows(sizes), sum(sizes), len(sizes)
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
    digits = _checked_digits(digits)
    words = _words(u)
    u = _planes("u", u, sum(digits), words)
    tables = _planes("tables", tables, _table_rows(digits), words)
    mask = _planes("mask", mask, 2 * len(digits) - 1 if carries else len(digits), words)
    out = _output(out, mask)
    if gpu := gpu_for(u, tables, mask, out):
        fast = gpu.leaf_carries if carries else gpu.leaf_matches
        return fast(u, tables, digits, mask, out, first=first)
    native = native_for(u, tables, mask, out)
    if native is None:
        slow = reference.leaf_carries if carries else reference.leaf_matches
        return out.copy_(slow(u, tables, digits, mask, first=first))
    fast = native.leaf_carries if carries else native.leaf_matches
    addresses = [x.data_ptr() for x in (u, tables, mask, out)]
    fast(addresses, digits, first, words)
    return out


def _deal(
    name: str,
    masks: Tensor,
    sizes: tuple[int, ...],
    pad: Tensor,
    out: Tensor | None,
    rows: tuple[int, int],
) -> Tensor:
    words = _words(masks)
    masks = _planes("masks", masks, rows[1], words)
    pad = _planes("pad", pad, rows[0], words)
    out = _output(out, pad)
    if gpu := gpu_for(masks, pad, out):
        return getattr(gpu, name)(masks, sizes, pad, out)
    native = native_for(masks, pad, out)
    if native is None:
        return out.copy_(getattr(reference, name)(masks, sizes, pad))
    getattr(native, name)(masks.data_ptr(), sizes, pad.data_ptr(), out.data_ptr(), words)
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
    rows: tuple[int, int, int],
) -> Tensor:
    words = _words(hats)
    hats, shares = _planes("hats", hats, rows[1], words), _planes("shares", shares, rows[1], words)
    products = _planes("products", products, rows[0], words)
    mask = _planes("mask", mask, rows[2], words)
    out = _output(out, mask)
    if gpu := gpu_for(hats, shares, products, mask, out):
        return getattr(gpu, name)(hats, shares, products, sizes, mask, out, first=first)
    native = native_for(hats, shares, products, mask, out)
    if native is None:
        slow = getattr(reference, name)
        return out.copy_(slow(hats, shares, products, sizes, mask, first=first))
    addresses = [x.data_ptr() for x in (hats, shares, products, mask, out)]
    getattr(native, name)(addresses, sizes, first, words)
    return out


@cache
def _table_rows(digits: tuple[int, ...]) -> int:
    return reference.num_table_rows(digits)


@cache
def _node_rows(sizes: tuple[int, ...]) -> int:
    return reference.num_products(sizes)


@cache
def _and_rows(sizes: tuple[int, ...]) -> int:
    return reference.num_and_products(sizes)


def _checked_digits(digits: Sequence[int]) -> tuple[int, ...]:
    if not digits or min(digits) < 1 or max(digits) > MAX_DIGIT:
        raise ConfigError(f"digits={tuple(digits)}: each has 1..{MAX_DIGIT} bits")
    return tuple(digits)


def _checked_sizes(sizes: Sequence[int]) -> tuple[int, ...]:
    if not sizes or min(sizes) < 2 or max(sizes) > MAX_FAN_IN:
        raise ConfigError(f"sizes={tuple(sizes)}: each is 2..{MAX_FAN_IN}")
    return tuple(sizes)


def _words(planes: Tensor) -> int:
    if planes.dim() != 2:
        raise ConfigError(f"planes of shape {tuple(planes.shape)}: (planes, words) is needed")
    return planes.shape[1]


def _planes(name: str, planes: Tensor, rows: int, words: int) -> Tensor:
    """The planes, contiguous, after a check of their dtype and shape."""
    if planes.dtype != torch.int64:
        raise ConfigError(f"{name}: dtype={planes.dtype}: planes are int64")
    if planes.shape != (rows, words):
        found = tuple(planes.shape)
        raise ConfigError(f"{name} of shape {found}: {rows} planes of {words} words are needed")
    return planes.contiguous()


def _output(out: Tensor | None, like: Tensor) -> Tensor:
    """Where to write: what was given, after a check, or new memory."""
    if out is None:
        return torch.empty_like(like)
    if out.dtype != like.dtype or out.shape != like.shape or not out.is_contiguous():
        raise ConfigError(f"out: a contiguous int64 tensor of shape {tuple(like.shape)} is needed")
    return out
