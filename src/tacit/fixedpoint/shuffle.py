"""Rows in an order that nobody knows.

Each party in turn moves the rows by a permutation that it alone knows, so that the order is uniform
to everybody who lacks one of these permutations. NOTE [switches]: Benes' network moves 2^k rows by
any permutation, in 2 k - 1 layers of 2^(k-1) switches that exchange two rows or do not. Which rows
meet is public; the party shares the bits of its switches. In layer i the rows 2^(k-1-i) apart meet,
up to neighbours in the middle, and from there on the same backwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from secrets import SystemRandom

import torch
from torch import Tensor

from ..kernels import pack_bits
from ..protocols import Arith, Bool
from ..protocols.share import join
from .arithmetic import as_number
from .format import Format
from .value import Value, convert, settled


def shuffle(n: Format, x: Value) -> Value:
    """Returns the rows of x in an order that nobody knows: 2 k - 1 rounds a party for 2^k rows."""
    rows = x.shape[0]
    depth = (rows - 1).bit_length()
    if rows < 2:
        return x
    if n.trace is not None:
        n.trace.refuse("it shuffles by permutations that are drawn anew")
    number, p = settled(n, as_number(n, x)), n.protocol
    size = 1 << depth
    share = number.arith.reshape(rows, -1).pad((0, 0, 0, size - rows))
    for owner in range(p.parties):
        planes = _drawn_switches(rows, depth) if p.rank == owner else None
        bits = p.share_bits(planes, owner, (size // 2,), 2 * depth - 1)
        for layer, distance in enumerate(distances(depth)):
            share = _exchanged(n, share, bits.planes(layer, layer + 1), distance)
    moved = share.narrow(0, 0, rows).reshape(*x.shape)
    return convert(n, Value(moved, number.dtype), x.dtype)


def distances(depth: int) -> list[int]:
    """Returns how far apart the rows are that meet in each layer."""
    down = [1 << i for i in reversed(range(depth))]
    return [*down, *reversed(down[:-1])]


def _exchanged(n: Format, share: Arith, bit: Bool, distance: int) -> Arith:
    """Returns the rows after one layer: with d = b (second - first), first + d and second - d."""
    p, (size, columns) = n.protocol, share.shape
    pairs = share.reshape(size // (2 * distance), 2, distance, columns)
    first, second = pairs[:, 0], pairs[:, 1]
    chosen = bit.reshape(size // (2 * distance), distance, 1).expand(*first.shape)
    d = p.inject(chosen, p.sub(second, first))
    both = join(lambda parts: torch.stack(parts, 1), [p.add(first, d), p.sub(second, d)])
    return both.reshape(size, columns).promise(share.limit)


def _drawn_switches(rows: int, depth: int) -> Tensor:
    """Returns the switches of a permutation that this party draws for itself, a plane a layer."""
    order = [*range(rows)]
    SystemRandom().shuffle(order)
    bits = switches([*order, *range(rows, 1 << depth)])
    return torch.stack([pack_bits(torch.tensor(layer)) for layer in bits])


def switches(order: Sequence[int]) -> list[list[int]]:
    """Returns the bits of all layers that put row order[i] at place i, for 2^k rows.

    A switch of the first layer sends one of its two rows to the upper half, and one of the last
    takes one of its two from there. Following the rows from switch to switch decides them in turn;
    what each half has to do then is a permutation of half the size.
    """
    depth = (len(order) - 1).bit_length()
    layers = [[0] * (len(order) // 2) for _ in range(2 * depth - 1)]
    waiting = [(0, [*order])]  # the first row of a block, and the order within it
    for level in range(depth - 1):
        halves = []
        for start, block in waiting:
            upper, lower, entering, leaving = _halves(block)
            half = len(block) // 2
            layers[level][start // 2 : start // 2 + half] = entering
            layers[-1 - level][start // 2 : start // 2 + half] = leaving
            halves += [(start, upper), (start + half, lower)]
        waiting = halves
    for start, block in waiting:
        layers[depth - 1][start // 2] = block[0]
    return layers


def _halves(order: Sequence[int]) -> tuple[list[int], list[int], list[int], list[int]]:
    """Returns the orders of both halves, and the switches before and after them."""
    half = len(order) // 2
    place = [0] * len(order)  # where each row goes
    for i, row in enumerate(order):
        place[row] = i
    entering, leaving = [-1] * half, [-1] * half
    for start in range(half):
        i = start  # a place in the upper half of the switch: it is taken from the upper block
        while leaving[start] < 0 or leaving[i % half] < 0:
            leaving[i % half] = int(i >= half)
            row = order[i]
            entering[row % half] = int(row >= half)  # it goes to the upper block
            other = place[row - half if row >= half else row + half]  # whose row goes to the lower
            i = other - half if other >= half else other + half  # and its neighbour to the upper
    upper, lower = [0] * half, [0] * half
    for i in range(half):
        above, below = order[i], order[i + half]
        if leaving[i]:
            above, below = below, above
        upper[i], lower[i] = above % half, below % half
    return upper, lower, entering, leaving
