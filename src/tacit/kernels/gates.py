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
from .planes import checked_planes, num_columns, output_like

MAX_DIGIT = 7
MAX_FAN_IN = 9

Form = tuple[int, int, int]  # rows that are dealt for nodes, of their inputs, of their outputs


@cache
def table_form(digits: tuple[int, ...]) -> tuple[int, int]:
    """How many bits these digits have, and how many rows their tables."""
    if not digits or min(digits) < 1 or max(digits) > MAX_DIGIT:
        raise ConfigError(f"digits={digits}: each has 1..{MAX_DIGIT} bits")
    return sum(digits), reference.num_table_rows(digits)


@cache
def node_form(sizes: tuple[int, ...]) -> Form:
    _check_sizes(sizes)
    return reference.num_products(sizes), 2 * sum(sizes) - 1, 2 * len(sizes) - 1


@cache
def and_form(sizes: tuple[int, ...]) -> Form:
    _check_sizes(sizes)
    return reference.num_and_products(sizes), sum(sizes), len(sizes)


def _check_sizes(sizes: tuple[int, ...]) -> None:
    if not sizes or min(sizes) < 2 or max(sizes) > MAX_FAN_IN:
        raise ConfigError(f"sizes={sizes}: each is 2..{MAX_FAN_IN}")


def num_table_rows(digits: Sequence[int]) -> int:
    """How many rows `leaf_tables` has for these digits: 2^s - 1 for each."""
    return table_form(tuple(digits))[1]


def num_products(sizes: Sequence[int]) -> int:
    """How many rows `node_products` has for carry nodes of these sizes."""
    return node_form(tuple(sizes))[0]


def num_and_products(sizes: Sequence[int]) -> int:
    """How many rows `and_products` has for gates of these sizes: 2^d - 1 - d for each."""
    return and_form(tuple(sizes))[0]


def leaf_tables(
    v: Tensor, digits: Sequence[int], pad: Tensor, *, out: Tensor | None = None
) -> Tensor:
    """The one-hot tables of the digits of V, XOR the pad: (num_table_rows(digits), words).

    `v` has the planes of V, cut in digits of 1..7 bits, least significant first. A digit of s bits
    has the rows [2^s - 1 - V_digit == a] for a = 1..2^s - 1.
    """
    digits = tuple(digits)
    bits, rows = table_form(digits)
    words = num_columns(v)
    v, pad = checked_planes(words, ("v", v, bits), ("pad", pad, rows))
    out = output_like(out, pad)
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
    sizes = tuple(sizes)
    rows, inputs, outputs = node_form(sizes)
    if masks.shape[0] == inputs + 2:
        if gpu_for(masks, pad):
            inputs += 2
        else:
            masks = _taken(masks, inputs)
    return _deal("node_products", masks, sizes, pad, out, (rows, inputs, outputs))


def and_products(
    masks: Tensor, sizes: Sequence[int], pad: Tensor, *, out: Tensor | None = None
) -> Tensor:
    """What the dealer deals for AND gates, XOR the pad: (num_and_products(sizes), words).

    Gate by gate all products of two or more of its inputs' masks, in the order of binary numbers
    whose lowest bit is the first input.
    """
    sizes = tuple(sizes)
    return _deal("and_products", masks, sizes, pad, out, and_form(sizes))


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
    """Shares of the carries of J nodes, XOR the mask: rows G_0..G_{J-1}, P_1..P_{J-1}.

    `hats` and `shares` (of the lambdas) have the rows G_0..G_{D-1}, P_1..P_{D-1} of D = sum(sizes)
    groups, group 0 least significant. Node j combines sizes[j] (2..9) neighbouring groups, numbered
    1..d from the most significant: G = G_1 ^ P_1 G_2 ^ P_1 P_2 G_3 ^ ..., P = P_1 ... P_d.
    With `received` the hats are `hats ^ received`. There may be one group more, the most
    significant, which no node takes.
    """
    sizes = tuple(sizes)
    rows, inputs, outputs = node_form(sizes)
    more = {}
    if gpu_for(hats, shares, products, mask):
        inputs += 2 if hats.shape[0] == inputs + 2 else 0
        if received is not None:
            [more["received"]] = checked_planes(num_columns(hats), ("received", received, inputs))
    else:
        hats = hats if received is None else hats ^ received
        if hats.shape[0] == inputs + 2:
            hats, shares = _taken(hats, inputs), _taken(shares, inputs)
    form = rows, inputs, outputs
    return _evaluate("node_carries", hats, shares, products, sizes, mask, first, out, form, **more)


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
    sizes = tuple(sizes)
    form = and_form(sizes)
    return _evaluate("and_gates", hats, shares, products, sizes, mask, first, out, form)


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
    bits, rows = table_form(digits)
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
    addresses = [u.data_ptr(), tables.data_ptr(), mask.data_ptr(), out.data_ptr()]
    fast(addresses, digits, first, words)
    return out


def _deal(
    name: str,
    masks: Tensor,
    sizes: tuple[int, ...],
    pad: Tensor,
    out: Tensor | None,
    form: Form,
) -> Tensor:
    words, (rows, inputs, _) = num_columns(masks), form
    masks, pad = checked_planes(words, ("masks", masks, inputs), ("pad", pad, rows))
    out = output_like(out, pad)
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
    form: Form,
    **more: Tensor,
) -> Tensor:
    words, (rows, inputs, outputs) = num_columns(hats), form
    hats, shares, products, mask = checked_planes(
        words,
        ("hats", hats, inputs),
        ("shares", shares, inputs),
        ("products", products, rows),
        ("mask", mask, outputs),
    )
    out = output_like(out, mask)
    if gpu := gpu_for(hats, shares, products, mask, out):
        return getattr(gpu, name)(hats, shares, products, sizes, mask, out, first=first, **more)
    native = native_for(hats, shares, products, mask, out)
    if native is None:
        slow = getattr(reference, name)
        return out.copy_(slow(hats, shares, products, sizes, mask, first=first))
    addresses = [x.data_ptr() for x in (hats, shares, products, mask, out)]
    getattr(native, name)(addresses, sizes, first, words)
    return out


def _taken(state: Tensor, inputs: int) -> Tensor:
    """The rows (G..., P...) without those of the most significant group."""
    groups = (inputs + 1) // 2
    return torch.cat([state[:groups], state[groups + 1 : 2 * groups]])
