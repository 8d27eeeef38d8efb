"""The secret part of a join: rows of the same bin are compared, and what matches is selected."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from ...fixedpoint import Input, Numbers, Value
from ...protocols import Einsum
from .bins import BinSizes, Placement
from .ids import EMPTY_FIRST, EMPTY_SECOND, key_word_bits, num_key_words

# Elements of bins, keys and numbers together, that are shared and compared at once.
MOST_ELEMENTS = 1 << 22
ELEMENT_BYTES = 128  # at a party, of what is computed for an element


@dataclass(frozen=True)
class Side:
    """One of the two tables: what all parties know of it, and at its owner what is in it.

    keys: (rows, words). numbers: (rows, columns).
    """

    owner: int
    columns: int
    placement: Placement | None = None
    keys: Tensor | None = None
    numbers: Tensor | None = None


def matched_bins(
    n: Numbers, first: Side, second: Side, sizes: BinSizes
) -> tuple[Value, list[Value]]:
    """Returns for each bin whether its two rows match, and the numbers of both; zeros if not.

    matched: (bins,), 0 or 1. The rounds of two inputs, an equality, a bit as a number, and a
    product, for each piece of the bins that is computed at once.
    """
    ranges = list(_pieces(n, first, second, sizes))
    counted = n.protocol.context.loops.counted(ranges, "comparing rows", len(ranges))
    pieces = [_matched(n, first, second, sizes, *piece) for piece in counted]
    matched = n.combined([piece[0] for piece in pieces], torch.cat)
    columns = zip(*(piece[1] for piece in pieces), strict=True)
    return matched, [n.combined(list(parts), torch.cat) for parts in columns]


def _pieces(n: Numbers, first: Side, second: Side, sizes: BinSizes) -> Iterator[tuple[int, int]]:
    """Yields the ranges of bins that are computed at once."""
    words = num_key_words(sizes, n.ring.bits)
    width = sizes.load * (words + second.columns) + words + first.columns
    limit = n.protocol.context.memory_limit
    most = MOST_ELEMENTS if limit is None else min(MOST_ELEMENTS, limit // ELEMENT_BYTES)
    size = max(most // width, 1)
    for start in range(0, sizes.bins, size):
        yield start, min(start + size, sizes.bins)


def _matched(
    n: Numbers, first: Side, second: Side, sizes: BinSizes, start: int, stop: int
) -> tuple[Value, list[Value]]:
    """The same for bins [start, stop).

    matched[b] = sum over l of match[b, l], and the numbers of the second table in bin b are the
    sum over l of match[b, l] numbers[b, l], in which at most one term is not 0.
    """
    bits = key_word_bits(sizes, n.ring.bits)
    words = num_key_words(sizes, n.ring.bits)
    keys, numbers = _shared(n, first, 1, EMPTY_FIRST, words, start, stop)
    other_keys, other_numbers = _shared(n, second, sizes.load, EMPTY_SECOND, words, start, stop)
    same = n.equal_words(keys, other_keys, bits)
    match = n.convert(same, torch.int64)
    matched = n.sum(match, (1,))
    only = numbers.map(lambda part: part[:, 0])  # its bins have one place
    made = n.bilinears(
        [(Einsum("b,bc->bc"), matched, only), (Einsum("bl,blc->bc"), match, other_numbers)]
    )
    return matched, made


def _shared(
    n: Numbers, side: Side, load: int, empty: int, words: int, start: int, stop: int
) -> tuple[Value, Value]:
    """The keys (bins, load, words) and numbers (bins, load, columns) of one table, as secrets."""
    placement, keys, numbers = side.placement, None, None
    if placement is not None and side.keys is not None and side.numbers is not None:
        keys = placement.filled(side.keys, empty, start, stop)
        numbers = placement.filled(side.numbers, 0, start, stop)
    shape = torch.Size((stop - start, load, words))
    shared = n.share_words(keys, side.owner, shape)
    one = Input(torch.Size((stop - start, load, side.columns)), torch.float32, numbers)
    [made] = n.share_many([one], side.owner)
    return shared, made
