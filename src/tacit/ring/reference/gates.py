"""Gates on masked bit planes by definition: every row is an XOR of ANDs.

Planes have the shape (planes, words); each of the 64 bits of a word is an independent column. A
wire is x = hat ^ lambda. Hats are the same for all shares. Lambdas are random, and there are XOR
shares of them. Products of lambdas are computed from the lambdas and shared, too ("dealt"), under a
pad. What depends on hats alone is added to one share only, that with `first`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import accumulate

import torch
from torch import Tensor

ONES = -1
Wire = tuple[str, int]  # ("p", 2) is p_2
Monomial = tuple[Wire, ...]  # the product of different wires
Row = tuple[Monomial, ...]  # what one dealt row is the XOR of


def spans(sizes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Gives where each of neighbouring groups of these sizes begins, and its size."""
    start = 0
    for size in sizes:
        yield start, size
        start += size


def all_of(rows: Sequence[Tensor], like: Tensor) -> Tensor:
    """Returns the AND of the rows; all ones if there are none."""
    return reduce(torch.bitwise_and, rows, torch.full_like(like, ONES))


def sum_of(rows: Sequence[Tensor], like: Tensor) -> Tensor:
    """Returns the XOR of the rows; all zeros if there are none."""
    return reduce(torch.bitwise_xor, rows, torch.zeros_like(like))


def one(like: Tensor, first: bool) -> Tensor:
    """Returns a share of the constant 1."""
    return torch.full_like(like, ONES if first else 0)


# Leaf tables ------------------------------------------------------------------------------------


def num_table_rows(digits: Sequence[int]) -> int:
    """Returns how many rows the tables of these digits have: 2^s - 1 for each."""
    return sum(2**size - 1 for size in digits)


def cases(planes: Tensor) -> list[Tensor]:
    """Returns ones where the number whose bits are the planes is 0, where it is 1, and so on."""
    found = [torch.full_like(planes[0], ONES)]
    for plane in planes:  # the lowest bit first: each one doubles the numbers
        found = [*(case & ~plane for case in found), *(case & plane for case in found)]
    return found


def leaf_tables(v: Tensor, digits: Sequence[int], pad: Tensor) -> Tensor:
    """Returns E_a = [2^s - 1 - V == a] for each digit V of s bits, a = 1..2^s - 1, XOR the pad."""
    rows = []
    for start, size in spans(digits):
        rows += cases(~v[start : start + size])[1:]
    return torch.stack(rows) ^ pad


def leaf_digits(
    u: Tensor, tables: Tensor, digits: Sequence[int], first: bool
) -> Iterator[tuple[Tensor, Tensor]]:
    """Gives shares of G = [U + V >= 2^s] and P = [U + V == 2^s - 1] for each digit.

    P = E_U, and G is the XOR of E_a for a < U.
    """
    row = 0
    for start, size in spans(digits):
        entries = list(tables[row : row + 2**size - 1])
        row += 2**size - 1
        entries = [one(u[0], first) ^ sum_of(entries, u[0]), *entries]  # E_0: one entry is 1
        before = accumulate(entries[:-1], torch.bitwise_xor, initial=torch.zeros_like(u[0]))
        is_u = cases(u[start : start + size])
        generate = sum_of([case & x for case, x in zip(is_u, before, strict=True)], u[0])
        propagate = sum_of([case & x for case, x in zip(is_u, entries, strict=True)], u[0])
        yield generate, propagate


def leaf_carries(
    u: Tensor, tables: Tensor, digits: Sequence[int], mask: Tensor, *, first: bool
) -> Tensor:
    """Returns shares of the G of all digits, then the P of all but digit 0, XOR the mask."""
    generate, propagate = zip(*leaf_digits(u, tables, digits, first), strict=True)
    return torch.stack([*generate, *propagate[1:]]) ^ mask


def leaf_matches(
    u: Tensor, tables: Tensor, digits: Sequence[int], mask: Tensor, *, first: bool
) -> Tensor:
    """Returns shares of the P of all digits, XOR the mask."""
    return torch.stack([p for _, p in leaf_digits(u, tables, digits, first)]) ^ mask


# What is dealt for a gate -----------------------------------------------------------------------


def subsets(wires: Sequence[Wire]) -> list[Monomial]:
    """Returns all subsets in the order of binary numbers; the first wire is the lowest bit."""
    chosen = range(2 ** len(wires))
    return [tuple(w for i, w in enumerate(wires) if n >> i & 1) for n in chosen]


def and_rows(size: int) -> list[Row]:
    """Returns all products of at least two of the inputs p_1..p_size."""
    inputs = [("p", i) for i in range(1, size + 1)]
    return [(product,) for product in subsets(inputs) if len(product) >= 2]


def carry_terms(size: int) -> list[Monomial]:
    """Returns the products of G = g_1 ^ p_1 g_2 ^ p_1 p_2 g_3 ^ ..."""
    return [(*[("p", i) for i in range(1, j)], ("g", j)) for j in range(1, size + 1)]


def carry_rows(size: int, with_p: bool) -> list[Row]:
    """Returns what is dealt for a carry node, in order; inputs are 1 (most significant)..size.

    1. The products of at least two of p_1..p_{size-1}.
    2. For g_2, g_3, ...: g_{j+1} times each subset of p_1..p_j, but the empty and the full one.
    3. One row: p_1 g_2 ^ p_1 p_2 g_3 ^ ... ^ p_1...p_{size-1} g_size. These products occur in one
       output only and with the coefficient 1, so their sum is enough.
    4. If the node has a P output: p_size times each subset of p_1..p_{size-1} but the empty one.
    Subsets are in the order of `subsets`.
    """
    p = [("p", i) for i in range(1, size + 1)]
    rows: list[Row] = and_rows(size - 1)
    for j in range(1, size):
        rows += [((*some, ("g", j + 1)),) for some in subsets(p[:j])[1:-1]]
    rows.append(tuple(carry_terms(size)[1:]))
    if with_p:
        rows += [((*some, p[-1]),) for some in subsets(p[:-1])[1:]]
    return rows


def node_rows(sizes: Sequence[int]) -> list[list[Row]]:
    """Returns what is dealt for each carry node; node 0, the least significant, has no P output."""
    return [carry_rows(size, with_p=node > 0) for node, size in enumerate(sizes)]


def num_products(sizes: Sequence[int]) -> int:
    """Returns how many rows are dealt for carry nodes of these sizes."""
    return sum(len(rows) for rows in node_rows(sizes))


def num_and_products(sizes: Sequence[int]) -> int:
    """Returns how many rows are dealt for AND gates of these sizes: 2^d - 1 - d for each."""
    return sum(len(and_rows(size)) for size in sizes)


def carry_wires(planes: Tensor, sizes: Sequence[int]) -> list[dict[Wire, Tensor]]:
    """Returns the wires of each node, out of the rows G_0..G_{D-1}, P_1..P_{D-1} of all groups."""
    groups = sum(sizes)
    nodes = []
    for start, size in spans(sizes):
        wires: dict[Wire, Tensor] = {}
        for i in range(1, size + 1):
            group = start + size - i
            wires["g", i] = planes[group]
            if group > 0:
                wires["p", i] = planes[groups + group - 1]
        nodes.append(wires)
    return nodes


def and_wires(planes: Tensor, sizes: Sequence[int]) -> list[dict[Wire, Tensor]]:
    """Returns the inputs of each gate, which are neighbouring rows."""
    return [{("p", i + 1): planes[start + i] for i in range(size)} for start, size in spans(sizes)]


def products(masks: Sequence[dict[Wire, Tensor]], rows: Sequence[Sequence[Row]]) -> Tensor:
    """Returns the dealt rows of all nodes without their pads."""
    dealt = []
    for wires, wanted in zip(masks, rows, strict=True):
        like = next(iter(wires.values()))
        for row in wanted:
            values = [all_of([wires[w] for w in monomial], like) for monomial in row]
            dealt.append(sum_of(values, like))
    return torch.stack(dealt)


def node_products(masks: Tensor, sizes: Sequence[int], pad: Tensor) -> Tensor:
    """Returns what is dealt for carry nodes, node by node in the order of `carry_rows`."""
    return products(carry_wires(masks, sizes), node_rows(sizes)) ^ pad


def and_products(masks: Tensor, sizes: Sequence[int], pad: Tensor) -> Tensor:
    """Returns what is dealt for AND gates, gate by gate in the order of `and_rows`."""
    return products(and_wires(masks, sizes), [and_rows(size) for size in sizes]) ^ pad


# Gates ------------------------------------------------------------------------------------------


class Gate:
    """The hats of one node, and one share of each product of lambdas."""

    def __init__(
        self,
        hats: dict[Wire, Tensor],
        shares: dict[Wire, Tensor],
        rows: Sequence[Row],
        dealt: Sequence[Tensor],
        first: bool,
    ) -> None:
        self.hats = hats
        self.like = next(iter(hats.values()))
        self.lambdas: dict[Monomial, Tensor] = {(): one(self.like, first)}
        self.lambdas |= {(wire,): share for wire, share in shares.items()}
        self.lambdas |= {r[0]: share for r, share in zip(rows, dealt, strict=True) if len(r) == 1}

    def share(self, product: Monomial, *, complete: bool) -> Tensor:
        """Returns the share of a product of wires: XOR over subsets S of lambda_S hat_{not S}.

        Without `complete` the product of all lambdas is left out: the merged row has it.
        """
        chosen = subsets(product) if complete else subsets(product)[:-1]
        terms = []
        for masked in chosen:
            known = [self.hats[wire] for wire in product if wire not in masked]
            terms.append(all_of([*known, self.lambdas[masked]], self.like))
        return sum_of(terms, self.like)


def node_carries(
    hats: Tensor,
    shares: Tensor,
    products: Tensor,
    sizes: Sequence[int],
    mask: Tensor,
    *,
    first: bool,
) -> Tensor:
    """Returns shares of the G of all nodes, then the P of all but node 0, XOR the mask."""
    generate, propagate = [], []
    views = zip(
        carry_wires(hats, sizes), carry_wires(shares, sizes), node_rows(sizes), sizes, strict=True
    )
    row = 0
    for node, (known, own, rows, size) in enumerate(views):
        dealt = products[row : row + len(rows)]
        row += len(rows)
        gate = Gate(known, own, rows, list(dealt), first)
        terms = carry_terms(size)
        merged = dealt[rows.index(tuple(terms[1:]))]
        parts = [gate.share(term, complete=len(term) == 1) for term in terms]
        generate.append(sum_of(parts, gate.like) ^ merged)
        if node > 0:
            inputs = tuple(("p", i) for i in range(1, size + 1))
            propagate.append(gate.share(inputs, complete=True))
    return torch.stack([*generate, *propagate]) ^ mask


def and_gates(
    hats: Tensor,
    shares: Tensor,
    products: Tensor,
    sizes: Sequence[int],
    mask: Tensor,
    *,
    first: bool,
) -> Tensor:
    """Returns shares of the AND of each gate's inputs, XOR the mask."""
    outputs, row = [], 0
    views = zip(and_wires(hats, sizes), and_wires(shares, sizes), sizes, strict=True)
    for known, own, size in views:
        rows = and_rows(size)
        gate = Gate(known, own, rows, list(products[row : row + len(rows)]), first)
        row += len(rows)
        inputs = tuple(("p", i) for i in range(1, size + 1))
        outputs.append(gate.share(inputs, complete=True))
    return torch.stack(outputs) ^ mask
