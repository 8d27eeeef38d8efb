"""Bits into the ring and exact truncation, on additive shares and without communication.

A bit is b ^ y: all evaluators know b, the dealer knows y. A value of the ring is x = opened + mask,
wrapping: all evaluators know `opened`, the dealer knows `mask`. Bits come packed, one plane of
ceil(N / 64) words for the N elements of the ring tensors (`pack_bits`). Shares are additive; what
all evaluators know is added where `first`, which is true at exactly one of them.

The functions of the evaluators add to `out`, in one pass over memory, and return it; the caller
begins with zeros, with a mask or with another term of the sum. Some take `minus` instead: they
return a share minus that, in new memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor

from ..errors import ConfigError
from ..ring import Ring, ring_of
from ..ring.reference import injection as reference
from ..ring.reference.bits import num_words
from .backend import gpu_for, native_for
from .planes import checked_planes, from_bit_planes, unpack_bits


def inject_share(
    bits: Tensor,
    opened: Tensor,
    flip: Tensor,
    product: Tensor,
    own: Tensor,
    *,
    first: bool,
    out: Tensor | None = None,
    minus: Tensor | None = None,
) -> Tensor:
    """`out`, or else -minus, to which a share of bit * x is added.

    The shares: `flip` of y, `product` of y * mask, `own` of mask. Added is
    (1 - 2b)(opened flip + product) + b own, and b opened where `first`.
    """
    shares = (opened, flip, product, own)
    ring, like = _checked(bits, _either(out, minus), *shares)
    if gpu := gpu_for(bits, like, *shares):
        return gpu.inject_share(bits, *shares, first=first, out=out, minus=minus)
    out = -like if out is None else out
    native = native_for(bits, out, *shares)
    if native is None:
        return reference.inject_share(bits, opened, flip, product, own, first=first, out=out)
    addresses = _addresses(bits, out, opened, flip, product, own)
    getattr(native, f"inject_share{ring.bits}")(addresses, first, out.numel())
    return out


def flip_share(bits: Tensor, flip: Tensor, *, first: bool, out: Tensor) -> Tensor:
    """`out`, to which a share of the bit is added: (1 - 2b) flip, and b where `first`."""
    ring, out = _checked(bits, out, flip)
    if gpu := gpu_for(bits, out, flip):
        return gpu.flip_share(bits, flip, first=first, out=out)
    native = native_for(bits, out, flip)
    if native is None:
        return reference.flip_share(bits, flip, first=first, out=out)
    getattr(native, f"flip_share{ring.bits}")(_addresses(bits, out, flip), first, out.numel())
    return out


def deal_flip(bits: Tensor, pad_flip: Tensor) -> Tensor:
    """`pad_flip`, replaced by the dealer's correction y - pad_flip; `bits` are y."""
    ring, pad_flip = _checked(bits, pad_flip)
    if gpu := gpu_for(bits, pad_flip):
        return gpu.deal_flip(bits, pad_flip)
    native = native_for(bits, pad_flip)
    if native is None:
        return reference.deal_flip(bits, pad_flip)
    getattr(native, f"deal_flip{ring.bits}")(_addresses(bits, pad_flip), pad_flip.numel())
    return pad_flip


def deal_injection(
    bits: Tensor, mask: Tensor, pad_flip: Tensor, pad_product: Tensor
) -> tuple[Tensor, Tensor]:
    """The pads, replaced by the dealer's corrections y - pad_flip and y mask - pad_product."""
    ring, pad_flip = _checked(bits, pad_flip, mask)
    _, pad_product = _checked(bits, pad_product, mask)
    if gpu := gpu_for(bits, mask, pad_flip, pad_product):
        return gpu.deal_injection(bits, mask, pad_flip, pad_product)
    native = native_for(bits, mask, pad_flip, pad_product)
    if native is None:
        return reference.deal_injection(bits, mask, pad_flip, pad_product)
    addresses = _addresses(bits, pad_flip, pad_product, mask)
    getattr(native, f"deal_injection{ring.bits}")(addresses, mask.numel())
    return pad_flip, pad_product


def exact_share(
    opened: Tensor,
    quotient: Tensor,
    top: Tensor,
    t: int,
    *,
    first: bool,
    out: Tensor | None = None,
    minus: Tensor | None = None,
) -> Tensor:
    """`out`, or else -minus, plus a share of floor(x / 2^t) or of one more, for |x| < 2^(k-2).

    `quotient` and `top` are shares of what `deal_exact` returns; of `top` only the low t bits
    matter. 1 <= t <= k - 2. It is one more where the low t bits, which nobody subtracts, borrow.
    """
    ring, like = _checked(None, _either(out, minus), opened, quotient, top)
    _check_shift(ring, t)
    if gpu := gpu_for(like, opened, quotient, top):
        return gpu.exact_share(opened, quotient, top, t, first=first, out=out, minus=minus)
    out = -like if out is None else out
    native = native_for(out, opened, quotient, top)
    if native is None:
        return reference.exact_share(opened, quotient, top, t, first=first, out=out)
    addresses = _addresses(out, opened, quotient, top)
    getattr(native, f"exact_share{ring.bits}")(addresses, t, first, out.numel())
    return out


def deal_exact(mask: Tensor, t: int) -> tuple[Tensor, Tensor]:
    """What the dealer shares for `exact_share`: the quotient in the ring, the top bits packed.

    With w = -mask: top is the top bit of w, low the others shifted by t, and the quotient is
    low - top 2^(k-1-t).
    """
    ring = ring_of(mask)
    _check_shift(ring, t)
    mask = mask.contiguous()
    if gpu := gpu_for(mask):
        return gpu.deal_exact(mask, t)
    native = native_for(mask)
    if native is None:
        return reference.deal_exact(mask, t)
    quotient, top = torch.empty_like(mask), _words(mask)
    addresses = _addresses(mask, quotient, top)
    getattr(native, f"deal_exact{ring.bits}")(addresses, t, mask.numel())
    return quotient, top


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
    packed: bool = False,
    out: Tensor | None = None,
    minus: Tensor | None = None,
) -> Tensor:
    """`out`, or else -minus, plus a share of bit * floor(x / 2^t) or of one more: |x| < 2^(k-2).

    The shares are of what `deal_inject_exact` returns, and `flip` of y; of `top` and `flip_top`
    only the low t + 1 bits matter: they may come `packed`, as that many planes. 1 <= t <= k - 2.
    """
    shares = (opened, flip, flip_low, low)
    whole = shares if packed else (*shares, top, flip_top)
    ring, like = _checked(bits, _either(out, minus), *whole)
    _check_shift(ring, t)
    if packed:
        planes = ("top", top, t + 1), ("flip_top", flip_top, t + 1)
        top, flip_top = checked_planes(num_words(like.numel()), *planes)
    if gpu := gpu_for(bits, like, *shares, top, flip_top):
        return gpu.inject_exact_share(
            bits, *shares, top, flip_top, t, first=first, packed=packed, out=out, minus=minus
        )
    if packed:
        top, flip_top = [from_bit_planes(x, like.shape, like.dtype) for x in (top, flip_top)]
    out = -like if out is None else out
    native = native_for(bits, out, *shares, top, flip_top)
    if native is None:
        return reference.inject_exact_share(bits, *shares, top, flip_top, t, first=first, out=out)
    addresses = _addresses(bits, out, *shares, top, flip_top)
    getattr(native, f"inject_exact_share{ring.bits}")(addresses, t, first, out.numel())
    return out


def deal_inject_exact(bits: Tensor, mask: Tensor, t: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """What the dealer shares for `inject_exact_share`: low, y low, and packed top, y AND top.

    `bits` are y, w = -mask, top is the top bit of w and low the others shifted by t.
    """
    mask = mask.contiguous()
    ring, mask = _checked(bits, mask)
    _check_shift(ring, t)
    if gpu := gpu_for(bits, mask):
        return gpu.deal_inject_exact(bits, mask, t)
    native = native_for(bits, mask)
    if native is None:
        return reference.deal_inject_exact(bits, mask, t)
    results = torch.empty_like(mask), torch.empty_like(mask), _words(mask), _words(mask)
    addresses = _addresses(bits, mask, *results)
    getattr(native, f"deal_inject_exact{ring.bits}")(addresses, t, mask.numel())
    return results


def correct_inject_exact(
    bits: Tensor, mask: Tensor, t: int, pads: Sequence[Tensor]
) -> list[Tensor]:
    """The pads, replaced by y, y low, low, top and y AND top (`deal_inject_exact`) minus each."""
    mask = mask.contiguous()
    ring, mask = _checked(bits, mask, *pads)
    _check_shift(ring, t)
    if gpu := gpu_for(bits, mask, *pads):
        return gpu.correct_inject_exact(bits, mask, t, pads)
    low, flip_low, *tops = deal_inject_exact(bits, mask, t)
    y, top, flip_top = (unpack_bits(words, mask.shape, mask.dtype) for words in (bits, *tops))
    values = (y, flip_low, low, top, flip_top)
    return [torch.sub(value, pad, out=pad) for value, pad in zip(values, pads, strict=True)]


def _either(out: Tensor | None, minus: Tensor | None) -> Tensor:
    """What a share is added to, but for its sign."""
    if (out is None) == (minus is None):
        raise ConfigError("a share is added to out or to -minus: give one of them")
    return out if out is not None else cast(Tensor, minus)


def _words(like: Tensor) -> Tensor:
    return torch.empty(num_words(like.numel()), dtype=torch.int64)


def _addresses(*tensors: Tensor) -> list[int]:
    return [tensor.data_ptr() for tensor in tensors]


def _checked(bits: Tensor | None, out: Tensor, *others: Tensor) -> tuple[Ring, Tensor]:
    """The ring, and `out`, after a check of dtypes, shapes and layout."""
    ring = ring_of(out, *others)
    for tensor in (out, *others):
        if tensor.shape != out.shape or not tensor.is_contiguous():
            shapes = ", ".join(str(tuple(x.shape)) for x in (out, *others))
            raise ConfigError(f"shapes {shapes}: contiguous tensors of one shape are needed")
    if bits is None:
        return ring, out
    if bits.dtype != torch.int64 or not bits.is_contiguous():
        raise ConfigError(f"bits: dtype={bits.dtype}: packed words are contiguous int64")
    if bits.numel() != (needed := num_words(out.numel())):
        raise ConfigError(f"bits: {bits.numel()} words: shape {tuple(out.shape)} needs {needed}")
    return ring, out


def _check_shift(ring: Ring, t: int) -> None:
    if not 1 <= t <= ring.bits - 2:
        raise ConfigError(f"t={t}: an exact truncation in this ring is by 1..{ring.bits - 2} bits")
