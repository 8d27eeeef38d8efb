"""Gates on bit planes, bit injection and exact truncation against memcpy. One thread.

A rate counts the bytes that a kernel must read and write once, those of memcpy its source and its
target. Sizes are those of a comparison of 2^20 64-bit elements in three rounds: 16 digits of 4
bits, then nodes of 4 and 4. Results are written over their pads and masks, as protocols do.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import torch
from benchmarks.measure import Row, interleaved, one_thread, rate, words

from tacit.kernels import (
    and_gates,
    and_products,
    deal_exact,
    deal_flip,
    deal_inject_exact,
    deal_injection,
    exact_share,
    flip_share,
    inject_exact_share,
    inject_share,
    leaf_carries,
    leaf_matches,
    leaf_tables,
    node_carries,
    node_products,
    num_and_products,
    num_products,
    num_table_rows,
)

COUNT = 1 << 20
WORDS = COUNT // 64
COPIED = 16 << 20
DIGITS, NODES = (4,) * 16, (4,) * 4
SHIFT = 16
Case = tuple[str, int, Callable[[], object]]

DEALER = "limit: memory; the pad is read and the result written over it"
READER = (
    "limit: memory and vector units in turn: rows are copied to a buffer a KB at a time, because "
    "at a power-of-two distance they do not fit beside each other in a cache, then worked on"
)
RING = "limit: memory"
PRODUCT = (
    "limit: instructions: in cache the rate is no higher; this host multiplies 64-bit words one at "
    "a time"
)
FRESH = "the results are new tensors, the target of memcpy is not"


def size_of(*tensors: torch.Tensor) -> int:
    return sum(x.nbytes for x in tensors)


def planes(*rows: int) -> list[torch.Tensor]:
    return [words(n, WORDS) for n in rows]


def leaf_cases() -> list[Case]:
    n = len(DIGITS)
    u, tables, pairs, singles = planes(sum(DIGITS), num_table_rows(DIGITS), 2 * n - 1, n)
    read = size_of(u, tables)
    return [
        (
            "leaf_tables",
            size_of(u, tables, tables),
            lambda: leaf_tables(u, DIGITS, tables, out=tables),
        ),
        (
            "leaf_carries",
            read + size_of(pairs, pairs),
            lambda: leaf_carries(u, tables, DIGITS, pairs, first=True, out=pairs),
        ),
        (
            "leaf_matches",
            read + size_of(singles, singles),
            lambda: leaf_matches(u, tables, DIGITS, singles, first=True, out=singles),
        ),
    ]


def node_cases() -> list[Case]:
    inputs, n = sum(NODES), len(NODES)
    hats, shares, dealt, mask = planes(
        2 * inputs - 1, 2 * inputs - 1, num_products(NODES), 2 * n - 1
    )
    ands = planes(inputs, inputs, num_and_products(NODES), n)
    return [
        (
            "node_products",
            size_of(hats, dealt, dealt),
            lambda: node_products(hats, NODES, dealt, out=dealt),
        ),
        (
            "node_carries",
            size_of(hats, shares, dealt, mask, mask),
            lambda: node_carries(hats, shares, dealt, NODES, mask, first=True, out=mask),
        ),
        (
            "and_products",
            size_of(ands[0], ands[2], ands[2]),
            lambda: and_products(ands[0], NODES, ands[2], out=ands[2]),
        ),
        (
            "and_gates",
            size_of(*ands, ands[3]),
            lambda: and_gates(*ands[:3], NODES, ands[3], first=True, out=ands[3]),
        ),
    ]


def ring_cases() -> list[Case]:
    a, b, c, d, e, f, out = (words(2 * COUNT) for _ in range(7))
    bits, one = words(2 * WORDS), out.nbytes
    shares = a, b, c, d, e, f
    return [
        (
            "inject_share",
            6 * one,
            lambda: inject_share(bits, a, b, c, d, first=True, out=out),
        ),
        ("flip_share", 3 * one, lambda: flip_share(bits, a, first=True, out=out)),
        ("deal_flip", 2 * one, lambda: deal_flip(bits, out)),
        ("deal_injection", 5 * one, lambda: deal_injection(bits, a, b, c)),
        ("exact_share", 5 * one, lambda: exact_share(a, b, c, SHIFT, first=True, out=out)),
        ("deal_exact", 2 * one, lambda: deal_exact(a, SHIFT)),
        (
            "inject_exact_share",
            8 * one,
            lambda: inject_exact_share(bits, *shares, SHIFT, first=True, out=out),
        ),
        ("deal_inject_exact", 3 * one, lambda: deal_inject_exact(bits, a, SHIFT)),
    ]


def note(name: str) -> str:
    if name in ("leaf_tables", "node_products", "and_products"):
        return DEALER
    if name in ("leaf_carries", "leaf_matches", "node_carries", "and_gates"):
        return READER
    if name in ("deal_exact", "deal_inject_exact"):
        return FRESH
    return PRODUCT if name in ("inject_share", "inject_exact_share") else RING


def measured(cases: list[Case], title: str) -> list[Row]:
    source, target = words(COPIED // 8), words(COPIED // 8)
    calls: dict[str, Callable[[], object]] = {name: call for name, _, call in cases}
    calls["memcpy"] = lambda: ctypes.memmove(target.data_ptr(), source.data_ptr(), COPIED)
    seconds = interleaved(calls)
    rows = []
    for name, amount, _ in cases:
        scaled = seconds | {"memcpy": seconds["memcpy"] * amount / (2 * COPIED)}
        pair = name, "memcpy"
        rows.append(rate(f"{name}, {title}", amount, "GB/s", scaled, pair, note=note(name)))
    return rows


def rows() -> list[Row]:
    """All on one thread."""
    with one_thread():
        return [
            *measured(leaf_cases(), "16 digits of 4 bits"),
            *measured(node_cases(), "4 nodes of 4"),
            *measured(ring_cases(), "64-bit words"),
        ]
