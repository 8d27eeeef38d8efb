"""Gates on masked bit planes (`tacit.kernels.gates`), on contiguous planes.

A program does one digit, node or gate for some words. The sizes of a list are nearly always equal
but for the last, so that two sizes are compiled together and one start serves the whole list.
"""

from collections.abc import Sequence
from functools import cache
from itertools import groupby

from torch import Tensor

from ...ring.reference import gates as reference
from . import gate_kernels as starts
from .launch import Kernel, blocks

LANES = 128

# Larger nodes take minutes to compile, and no plan of the protocols has them.
LARGEST_NODE, LARGEST_GATE = 6, 7

Numbers = tuple[int, ...]


def leaf_tables(v: Tensor, digits: Sequence[int], pad: Tensor, out: Tensor) -> Tensor:
    """`out`, with the one-hot tables of the digits of V, XOR the pad."""
    return _start(starts.leaf_tables, "table", (v, pad, out), digits, ())


def leaf_carries(
    u: Tensor, tables: Tensor, digits: Sequence[int], mask: Tensor, out: Tensor, *, first: bool
) -> Tensor:
    """`out`, with the shares of the G of all digits, then of the P of all but digit 0."""
    return _start(starts.leaves, "table", (u, tables, mask, out), digits, (-first, len(digits)))


def leaf_matches(
    u: Tensor, tables: Tensor, digits: Sequence[int], mask: Tensor, out: Tensor, *, first: bool
) -> Tensor:
    """`out`, with the shares of the P of all digits."""
    return _start(starts.leaves, "table", (u, tables, mask, out), digits, (-first, 0))


def node_products(masks: Tensor, sizes: Sequence[int], pad: Tensor, out: Tensor) -> Tensor:
    """`out`, with what is dealt for carry nodes, XOR the pad."""
    if max(sizes) > LARGEST_NODE:
        return out.copy_(reference.node_products(masks, sizes, pad))
    return _start(starts.node_products, "carry", (masks, pad, out), sizes, (sum(sizes),))


def and_products(masks: Tensor, sizes: Sequence[int], pad: Tensor, out: Tensor) -> Tensor:
    """`out`, with what is dealt for AND gates, XOR the pad."""
    if max(sizes) > LARGEST_GATE:
        return out.copy_(reference.and_products(masks, sizes, pad))
    return _start(starts.and_products, "and", (masks, pad, out), sizes, ())


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
    return _start(starts.node_carries, "carry", pointers, sizes, (-first, sum(sizes), len(sizes)))


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
    return _start(starts.and_gates, "and", (hats, shares, products, mask, out), sizes, (-first,))


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
    made: list[tuple[int, Numbers, Numbers]] = []
    for i in range(0, len(runs), 2):
        (size, count), (other, rest) = (*runs[i : i + 2], (0, 0))[:2]
        rows = (num_rows(kind, size), num_rows(kind, other) if rest else 0)
        made.append((count + rest, (count, place, entry, row), (size, other, *rows)))
        place += count + rest
        entry += count * size + rest * other
        row += count * rows[0] + rest * rows[1]
    return made
