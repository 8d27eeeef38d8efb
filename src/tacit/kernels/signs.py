"""The beginning of a comparison: tables of the digits of a mask, looked up at those of a number.

x = opened + mask modulo 2^w: all evaluators know `opened`, the dealer knows `mask`. The low w - 1
bits are cut in digits (`gates`); the sign of x is the carry out of them XOR the top bits of both.
The generate bit of the most significant digit enters every carry above it as a summand, so that
the top bits are added to it here, and the carry of the last node is the sign.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from ..errors import ConfigError
from ..ring.reference.bits import num_words
from .backend import gpu_for
from .gates import leaf_carries, leaf_tables, table_form
from .planes import bit_planes, check_window, checked_planes


def sign_tables(
    mask: Tensor, digits: Sequence[int], pad: Tensor, *, shift: int = 0, negate: bool = False
) -> Tensor:
    """`pad`, replaced by the tables XOR it: those of `leaf_tables`, then the top bit.

    They are of V = -(-mask >> shift), a quotient that is rounded up; `shift` is of bits that the
    evaluators do not look at. With `negate` the top bit is negated, and so is the sign.
    """
    digits = tuple(digits)
    bits, rows = table_form(digits)
    check_window(mask, bits + 1, shift)
    words = num_words(mask.numel())
    [plain] = checked_planes(words, ("pad", pad, rows + 1))
    if plain is not pad:
        raise ConfigError("pad: a contiguous tensor is needed; it is written to")
    if gpu := gpu_for(mask, pad):
        return gpu.sign_tables(mask, digits, pad, shift=shift, negate=negate)
    v = bit_planes(-(-mask >> shift) if shift else mask, bits + 1)
    leaf_tables(v[:-1], digits, pad[:-1], out=pad[:-1])
    pad[-1].bitwise_xor_(~v[-1] if negate else v[-1])
    return pad


def sign_leaves(
    opened: Tensor,
    tables: Tensor,
    digits: Sequence[int],
    mask: Tensor,
    *,
    low: int = 0,
    first: bool,
) -> Tensor:
    """What `leaf_carries` gives for bits [low, low + w) of `opened`, with the top bits in it.

    `tables` is a share of what `sign_tables` makes, without its pad.
    """
    digits = tuple(digits)
    bits, rows = table_form(digits)
    check_window(opened, bits + 1, low)
    words = num_words(opened.numel())
    count = len(digits)
    tables, mask = checked_planes(
        words, ("tables", tables, rows + 1), ("mask", mask, 2 * count - 1)
    )
    if gpu := gpu_for(opened, tables, mask):
        return gpu.sign_leaves(opened, tables, digits, mask, low=low, first=first)
    u = bit_planes(opened, bits + 1, low)
    message = leaf_carries(u[:-1], tables[:-1], digits, mask, first=first)
    top = message[count - 1].bitwise_xor_(tables[-1])
    if first:
        top.bitwise_xor_(u[-1])
    return message
