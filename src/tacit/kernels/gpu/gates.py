"""Gates on masked bit planes and the leaves of signs (`tacit.kernels.gates` and `.signs`).

Planes are contiguous. A program computes one item (digit, node or gate) for some words. In a list
of sizes all but the last are nearly always equal, so two sizes are compiled into one kernel, and
one launch serves the whole list.
"""

from collections.abc import Sequence
from functools import cache
from itertools import groupby

import torch
from torch import Tensor

from . import gate_kernels
from .jit import Kernel, blocks

LANES = 128
WIDE_LANES = 8  # for nodes and gates of many inputs, which few words take

Numbers = tuple[int, ...]

# The digit to which the top bits are added, and their places among bits and rows: none.
NO_TOP = (-1, 0, 0)


def leaf_tables(v: Tensor, digits: Sequence[int], pad: Tensor, out: Tensor) -> Tensor:
    """Fills `out` with the one-hot tables of the digits of V, XOR the pad."""
    return _launch_all(gate_kernels.leaf_tables, "table", (v, pad, out), digits, (*NO_TOP, 0))


def leaf_carries(
    u: Tensor, tables: Tensor, digits: Sequence[int], mask: Tensor, out: Tensor, *, first: bool
) -> Tensor:
    """Fills `out` with shares of the G of all digits, then of the P of all but digit 0."""
    numbers = (-first, len(digits), *NO_TOP)
    return _launch_all(gate_kernels.leaves, "table", (u, tables, mask, out), digits, numbers)


def leaf_matches(
    u: Tensor, tables: Tensor, digits: Sequence[int], mask: Tensor, out: Tensor, *, first: bool
) -> Tensor:
    """Fills `out` with shares of the P of all digits."""
    return _launch_all(
        gate_kernels.leaves, "table", (u, tables, mask, out), digits, (-first, 0, *NO_TOP)
    )


def node_products(masks: Tensor, sizes: Sequence[int], pad: Tensor, out: Tensor) -> Tensor:
    """Fills `out` with what is dealt for carry nodes, XOR the pad."""
    return _launch_all(
        gate_kernels.node_products, "carry", (masks, pad, out), sizes, (_groups(masks),)
    )


def and_products(masks: Tensor, sizes: Sequence[int], pad: Tensor, out: Tensor) -> Tensor:
    """Fills `out` with what is dealt for AND gates, XOR the pad."""
    return _launch_all(gate_kernels.and_products, "and", (masks, pad, out), sizes, ())


def node_carries(
    hats: Tensor,
    shares: Tensor,
    products: Tensor,
    sizes: Sequence[int],
    mask: Tensor,
    out: Tensor,
    *,
    first: bool,
    received: Tensor | None = None,
) -> Tensor:
    """Fills `out` with shares of the G of all nodes, then of the P of all but node 0."""
    pair = received is not None
    pointers = (hats, hats if received is None else received, shares, products, mask, out)
    numbers = -first, _groups(hats), len(sizes)
    return _launch_all(gate_kernels.node_carries, "carry", pointers, sizes, numbers, (pair,))


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
    """Fills `out` with shares of the AND of each gate's inputs."""
    return _launch_all(
        gate_kernels.and_gates, "and", (hats, shares, products, mask, out), sizes, (-first,)
    )


def sign_tables(v: Tensor, digits: Numbers, pad: Tensor, *, negate: bool) -> Tensor:
    """Replaces `pad` with the tables of the planes of V and its top bit, XOR the pad."""
    return _launch_all(
        gate_kernels.leaf_tables, "table", (v, pad, pad), digits, (*_top(digits), -negate)
    )


def sign_leaves(u: Tensor, tables: Tensor, digits: Numbers, mask: Tensor, *, first: bool) -> Tensor:
    """Returns shares of the carries of the digits, with the top bits in the last G."""
    out, numbers = torch.empty_like(mask), (-first, len(digits), *_top(digits))
    return _launch_all(gate_kernels.leaves, "table", (u, tables, mask, out), digits, numbers)


@cache
def _top(digits: Numbers) -> Numbers:
    """Returns the digit to which the top bits are added, and their places among bits and rows."""
    rows = sum(num_rows("table", digit) for digit in digits)
    return len(digits) - 1, sum(digits), rows


def _groups(state: Tensor) -> int:
    """Returns how many groups the rows G..., P... are of: those of the nodes, or one more."""
    return (state.shape[0] + 1) // 2


def _launch_all(
    kernel: Kernel,
    kind: str,
    pointers: tuple[Tensor, ...],
    sizes: Sequence[int],
    more: Numbers,
    flags: tuple[bool, ...] = (),
) -> Tensor:
    """Queues the launches for all sizes; returns the last of the pointers, which they fill."""
    words = pointers[0].shape[1]
    is_wide = kind != "table" and max(sizes) > gate_kernels.LARGEST_UNROLLED
    lanes = WIDE_LANES if is_wide else LANES
    if words:
        for number, places, constants in _launches(kind, tuple(sizes)):
            grid = (blocks(words, lanes), number, 1)
            kernel(grid, (*pointers, words, *places, *more), (*constants, lanes, *flags))
    return pointers[-1]


def num_rows(kind: str, size: int) -> int:
    """Returns how many rows a digit has in its table, or a node or gate among what is dealt."""
    half = 1 << (size - 1)
    return {"table": 2 * half - 1, "and": 2 * half - 1 - size, "carry": 4 * half - 3 * size}[kind]


@cache
def _launches(kind: str, sizes: Numbers) -> list[tuple[int, Numbers, Numbers]]:
    """Returns the launches for a list, each for a run of equal sizes and the run after it.

    A launch is the number of its items; then how many of them are in the first run, and how many
    items, inputs and rows come before; then both sizes, 0 if there is no second run, and the rows
    of each. Carry node 0 has no rows for P, so that those of all others begin as many earlier.
    """
    runs = [(size, len(list(equal))) for size, equal in groupby(sizes)]
    place, entry = 0, 0
    row = 1 - (1 << (sizes[0] - 1)) if kind == "carry" else 0
    made: list[tuple[int, Numbers, Numbers]] = []
    for i in range(0, len(runs), 2):
        (size, count), (other, rest) = (*runs[i : i + 2], (0, 0))[:2]
        rows = (num_rows(kind, size), num_rows(kind, other) if rest else 0)
        made.append((count + rest, (count, place, entry, row), (size, other, *rows)))
        place += count + rest
        entry += count * size + rest * other
        row += count * rows[0] + rest * rows[1]
    return made
