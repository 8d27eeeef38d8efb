"""The first step of a comparison: leaf tables of a mask, looked up at the masked value.

If |x| < 2^(w-1), the sign of x is bit w - 1 of x = opened + mask mod 2^w: the XOR of the top bits
of `opened` and `mask`, and of the carry out of the w - 1 bits below them. Those are cut into digits
(`gates`, leaves), with U = opened and V = mask. The final carry is G_1 ^ P_1 (...), where G_1, that
of the most significant digit, is a summand of its own. So the top bits are XORed to G_1 here, and
what the last node returns is the sign.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from ..errors import ConfigError
from ..ring.reference.bits import num_words
from .backend import gpu_for
from .gates import leaf_carries, leaf_tables, table_size
from .planes import bit_planes, check_window, checked_planes


def sign_tables(
    mask: Tensor, digits: Sequence[int], pad: Tensor, *, shift: int = 0, negate: bool = False
) -> Tensor:
    """Replaces `pad` with the tables of V, then its top bit, all XOR the pad; returns it.

    V = -(-mask >> shift) is mask / 2^shift, rounded up. With opened >> shift, rounded down,
    they add up to floor(x / 2^shift) or one more. `digits` and the top bit cover w bits of V;
    the shape is (num_table_rows(digits) + 1, words). With `negate` the top bit is negated, which
    negates the sign.
    """
    digits = tuple(digits)
    bits, rows = table_size(digits)
    check_window(mask, bits + 1, shift)
    words = num_words(mask.numel())
    [plain] = checked_planes(words, ("pad", pad, rows + 1))
    if plain is not pad:
        raise ConfigError("pad", limit="a contiguous tensor is needed, because it is written to")
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
    """Returns `leaf_carries` of bits [low, low + w) of `opened`, with the top bits in the last G.

    `tables` is a share of what `sign_tables` makes, without the pad. The shape is that of `mask`:
    (2 D - 1, words) for D digits.
    """
    digits = tuple(digits)
    bits, rows = table_size(digits)
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
