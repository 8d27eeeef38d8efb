"""Carries, and the AND of many bits, from gates of two inputs: one round for each level of a tree.

A gate is a function of the parts of two secrets, planes of bits, that returns the parts of x & y in
one round. It decides which protocol this is. `..._rows` returns how many planes each round of a
function has gates for.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from .share import Parts
from .steps import Steps

Gate = Callable[[Parts, Parts], Steps[Parts]]


def map_parts(change: Callable[..., Tensor], *secrets: Parts) -> Parts:
    """Applies a local function to each part that this party holds of several secrets."""
    return {i: change(*(parts[i] for parts in secrets)) for i in secrets[0]}


def num_rows(parts: Parts) -> int:
    """Returns the number of planes of a secret."""
    return len(next(iter(parts.values())))


# The AND of many ---------------------------------------------------------------------------------


def and_tree(gate: Gate, groups: list[Parts]) -> Steps[Parts]:
    """Returns the AND of d secrets. ceil(log2 d) rounds, d - 1 gates for each plane."""
    while len(groups) > 1:
        pairs = len(groups) // 2
        left, right = _stacked(groups[0 : 2 * pairs : 2]), _stacked(groups[1 : 2 * pairs : 2])
        out = yield from gate(left, right)
        chunks = {i: planes.chunk(pairs) for i, planes in out.items()}
        joined = [{i: chunks[i][n] for i in chunks} for n in range(pairs)]
        groups = [*joined, *groups[2 * pairs :]]
    return groups[0]


def and_tree_rows(inputs: int, rows: int = 1) -> list[int]:
    made = []
    while inputs > 1:
        made.append(inputs // 2 * rows)
        inputs -= inputs // 2
    return made


def all_planes(gate: Gate, planes: Parts) -> Steps[Parts]:
    """Returns the AND of the w planes of a secret. ceil(log2 w) rounds, w - 1 gates."""
    rows = range(num_rows(planes))
    return (
        yield from and_tree(gate, [map_parts(lambda a, n=n: a[n : n + 1], planes) for n in rows])
    )


def _stacked(groups: list[Parts]) -> Parts:
    return map_parts(lambda *planes: torch.cat(planes), *groups)


# The top bit of a sum ----------------------------------------------------------------------------


def top_bit(gate: Gate, u: Parts, v: Parts) -> Steps[Parts]:
    """Returns bit w - 1 of u + v, from w planes of each. 1 + ceil(log2(w - 1)) rounds."""
    tops = map_parts(lambda a, b: a[-1:] ^ b[-1:], u, v)
    generate = yield from gate(map_parts(_but_top, u), map_parts(_but_top, v))
    propagate = map_parts(lambda a, b: a[1:-1] ^ b[1:-1], u, v)
    carry = yield from carry_out(gate, generate, propagate)
    return map_parts(torch.bitwise_xor, tops, carry)


def top_bit_rows(width: int) -> list[int]:
    digits = width - 1
    made = [digits]
    while digits > 1:
        made.append(2 * (digits // 2) - 1)
        digits -= digits // 2
    return made


def _but_top(planes: Tensor) -> Tensor:
    return planes[:-1]


def carry_out(gate: Gate, generate: Parts, propagate: Parts) -> Steps[Parts]:
    """Returns the carry out of m digits, joined in pairs: ceil(log2 m) rounds.

    Rows are digits, the lowest first, and P of the lowest is not needed. Two neighbours G, P and
    G', P' (the upper one) generate G' ^ P' G and propagate P' P: 2 floor(m / 2) - 1 ANDs a level.
    """
    while num_rows(generate) > 1:
        upper, lower = map_parts(_upper, propagate), map_parts(_lower, generate, propagate)
        joined = yield from gate(upper, lower)
        generate, propagate = (
            map_parts(_generated, generate, joined),
            map_parts(_propagated, propagate, joined),
        )
    return generate


def _upper(propagate: Tensor) -> Tensor:
    """P' of every pair, and again of every pair but the first."""
    own = propagate[0::2]
    return torch.cat([own, own[1:]])


def _lower(generate: Tensor, propagate: Tensor) -> Tensor:
    """G of every pair, and P of every pair but the first."""
    pairs = len(generate) // 2
    return torch.cat([generate[0 : 2 * pairs : 2], propagate[1 : 2 * pairs - 2 : 2]])


def _generated(generate: Tensor, joined: Tensor) -> Tensor:
    """What each pair generates, and the digit that has no partner."""
    pairs = len(generate) // 2
    return torch.cat([generate[1 : 2 * pairs : 2] ^ joined[:pairs], generate[2 * pairs :]])


def _propagated(propagate: Tensor, joined: Tensor) -> Tensor:
    """What each pair but the first propagates, and the digit that has no partner."""
    pairs = (len(propagate) + 1) // 2
    return torch.cat([joined[pairs:], propagate[2 * pairs - 1 :]])


# Sums of more than two ---------------------------------------------------------------------------


def carry_save(gate: Gate, operands: list[Parts]) -> Steps[list[Parts]]:
    """Returns two secrets with the sum of m, mod 2^w. Three become two in a round.

    a + b + c = (a ^ b ^ c) + 2 (((a ^ c) & (b ^ c)) ^ c): w - 1 gates for each three.
    """
    while len(operands) > 2:
        count = len(operands) // 3
        triples = [operands[3 * n : 3 * n + 3] for n in range(count)]
        left = _stacked([map_parts(_but_top_of_xor, a, c) for a, _, c in triples])
        right = _stacked([map_parts(_but_top_of_xor, b, c) for _, b, c in triples])
        out = yield from gate(left, right)
        chunks = {i: planes.chunk(count) for i, planes in out.items()}
        joined: list[Parts] = []
        for n, (a, b, c) in enumerate(triples):
            both = {i: chunks[i][n] for i in chunks}
            joined += [map_parts(lambda x, y, z: x ^ y ^ z, a, b, c), map_parts(_carried, both, c)]
        operands = [*joined, *operands[3 * count :]]
    return operands


def carry_save_rows(operands: int, width: int) -> list[int]:
    made = []
    while operands > 2:
        made.append(operands // 3 * (width - 1))
        operands -= operands // 3
    return made


def _but_top_of_xor(a: Tensor, b: Tensor) -> Tensor:
    return a[:-1] ^ b[:-1]


def _carried(both: Tensor, c: Tensor) -> Tensor:
    """The carries, each a place higher."""
    return torch.cat([torch.zeros_like(c[:1]), both ^ c[:-1]])
