"""Bits into the ring, and exact truncation, on additive shares: by definition.

A bit is b ^ y = b + (1 - 2 b) y, as integers. A value is x = opened + mask. b and `opened` are the
same for all shares; y and `mask` are masks, of which there are shares in the ring. What depends on
b and `opened` alone is added to one share only, that with `first`. `bits` are packed words.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from ..ring import ring_of
from .bits import pack_bits, unpack_bits


def inject_share(
    bits: Tensor,
    opened: Tensor,
    flip: Tensor,
    product: Tensor,
    own: Tensor,
    *,
    first: bool,
    out: Tensor,
) -> Tensor:
    """Adds a share of bit * x to `out` and returns it.

    `flip` is a share of y, `product` of y mask, `own` of mask.
    """
    b = unpack_bits(bits, opened.shape, opened.dtype)
    out += (1 - 2 * b) * (opened * flip + product) + b * own
    if first:
        out += b * opened
    return out


def flip_share(bits: Tensor, flip: Tensor, *, first: bool, out: Tensor) -> Tensor:
    """Adds a share of the bit to `out` and returns it; `flip` is a share of y."""
    b = unpack_bits(bits, flip.shape, flip.dtype)
    out += (1 - 2 * b) * flip
    if first:
        out += b
    return out


def deal_flip(bits: Tensor, pad_flip: Tensor) -> Tensor:
    """Replaces `pad_flip` with y - pad_flip and returns it."""
    y = unpack_bits(bits, pad_flip.shape, pad_flip.dtype)
    return pad_flip.copy_(y - pad_flip)


def deal_injection(
    bits: Tensor, mask: Tensor, pad_flip: Tensor, pad_product: Tensor
) -> tuple[Tensor, Tensor]:
    """Replaces the pads with y - pad_flip and y mask - pad_product and returns them."""
    y = unpack_bits(bits, mask.shape, mask.dtype)
    return pad_flip.copy_(y - pad_flip), pad_product.copy_(y * mask - pad_product)


def split(x: Tensor, t: int) -> tuple[Tensor, Tensor]:
    """Returns the top bit of each element, and the other bits shifted right by t."""
    bits = ring_of(x).bits
    return x >> (bits - 1) & 1, (x & ((1 << (bits - 1)) - 1)) >> t


def known_parts(opened: Tensor, t: int) -> tuple[Tensor, Tensor, Tensor]:
    """Returns the top bit of c = opened + 2^(k-2), and A and B.

    A - low + B top is floor(x / 2^t) or one more, with top and low of `split(-mask, t)`.
    """
    bits = ring_of(opened).bits
    top, low = split(opened + (1 << (bits - 2)), t)
    step = 1 << (bits - 1 - t)
    return top, low + top * step - (1 << (bits - 2 - t)), (1 - 2 * top) * step


def exact_share(
    opened: Tensor, quotient: Tensor, top: Tensor, t: int, *, first: bool, out: Tensor
) -> Tensor:
    """Adds a share of floor(x / 2^t), or of one more, to `out` and returns it."""
    c_top, a, _ = known_parts(opened, t)
    out -= quotient + ((c_top * top) << (ring_of(opened).bits - t))
    if first:
        out += a
    return out


def deal_exact(mask: Tensor, t: int) -> tuple[Tensor, Tensor]:
    """Returns the quotient low - top 2^(k-1-t) of -mask, and its packed top bits."""
    top, low = split(-mask, t)
    return low - top * (1 << (ring_of(mask).bits - 1 - t)), pack_bits(top)


def inject_exact_share(
    bits: Tensor,
    opened: Tensor,
    flip: Tensor,
    flip_low: Tensor,
    low: Tensor,
    top: Tensor,
    flip_top: Tensor,
    t: int,
    *,
    first: bool,
    out: Tensor,
) -> Tensor:
    """Adds a share of bit * floor(x / 2^t), or bit * (one more), to `out` and returns it."""
    b = unpack_bits(bits, opened.shape, opened.dtype)
    _, known, step = known_parts(opened, t)
    out += (1 - 2 * b) * (known * flip - flip_low + step * flip_top) + b * (step * top - low)
    if first:
        out += b * known
    return out


def deal_inject_exact(bits: Tensor, mask: Tensor, t: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Returns low and y low of -mask, then the top bits and y AND them, packed."""
    y = unpack_bits(bits, mask.shape, mask.dtype)
    top, low = split(-mask, t)
    return low, y * low, pack_bits(top), pack_bits(y * top)


def correct_inject_exact(
    bits: Tensor, mask: Tensor, t: int, pads: Sequence[Tensor]
) -> list[Tensor]:
    """Replaces the pads with y, y low, low, top and y top, minus each, and returns them."""
    y = unpack_bits(bits, mask.shape, mask.dtype)
    top, low = split(-mask, t)
    values = (y, y * low, low, top, y * top)
    return [pad.copy_(value - pad) for value, pad in zip(values, pads, strict=True)]
