"""Bits into the ring and exact truncation, on additive shares and without communication.

A masked bit is b ^ y and a masked ring value is x = opened + mask, wrapping: b and `opened` are the
same for all shares, y and `mask` are masks (the words of `tacit.kernels`). Bits come packed, one
plane of ceil(N / 64) words for the N elements of the ring tensors (`pack_bits`).

injection   As integers b ^ y = b + (1 - 2 b) y, so that
                bit * x = (1 - 2 b) (opened y + y mask) + b mask + b opened,
            linear in y, y mask and mask, of which there are shares; the last term is public.
truncation  Let w = -mask, c = opened + 2^(k-2), and `top` and `low` the top bit of w and its other
            bits shifted right by t. With the top bit c_top of c,
                A = ((c mod 2^(k-1)) >> t) + c_top 2^(k-1-t) - 2^(k-2-t),
                B = (1 - 2 c_top) 2^(k-1-t),
            floor(x / 2^t) or one more is A - low + B top, for |x| < 2^(k-2). It never wraps. It is
            one more where the low t bits of c are smaller than those of w: nothing subtracts them.
            A - low + B top = A - (low - top 2^(k-1-t)) - c_top top 2^(k-t), so that for the
            truncation alone only the low t bits of `top` matter; for its product with a bit, B top
            is needed and t + 1 bits matter.

Functions that return a share add it to `out`, in one pass over memory, and return `out`. The caller
puts zeros, a mask or another summand there first. With `minus` instead of `out` they return the
share minus that, in new memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor

from ..errors import ConfigError
from ..ring import Ring, num_words, ring_of
from ..ring.reference import injection as reference
from .backend import address, gpu_for, native_for
from .planes import checked_planes, from_bit_planes


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
    """Adds a share of bit * x to `out` and returns it, or returns the share minus `minus`.

    `flip` is a share of y, `product` of y * mask, `own` of mask. The share of the result is
    (1 - 2 b) (opened flip + product) + b own, plus b opened if `first`.
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
    """Adds a share of the bit to `out` and returns it: (1 - 2 b) flip, plus b if `first`.

    `flip` is a share of y.
    """
    ring, out = _checked(bits, out, flip)
    if gpu := gpu_for(bits, out, flip):
        return gpu.flip_share(bits, flip, first=first, out=out)
    native = native_for(bits, out, flip)
    if native is None:
        return reference.flip_share(bits, flip, first=first, out=out)
    getattr(native, f"flip_share{ring.bits}")(_addresses(bits, out, flip), first, out.numel())
    return out


def deal_flip(bits: Tensor, pad_flip: Tensor) -> Tensor:
    """Replaces `pad_flip` with y - pad_flip, its partner as a share of y; `bits` are y."""
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
    """Replaces the pads with y - pad_flip and y mask - pad_product; `bits` are y."""
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
    """Adds a share of floor(x / 2^t), or of one more, to `out`; |x| < 2^(k-2), 1 <= t <= k - 2.

    Returns `out`, or the share minus `minus`. `quotient` and `top` are shares of what `deal_exact`
    returns, the bits of `top` unpacked; only the low t bits of a share of `top` matter.
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
    """Returns the quotient low - top 2^(k-1-t) of w = -mask, and the top bits of w, packed.

    `exact_share` takes shares of both. The quotient is w >> t with the sign kept.
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
    """Adds a share of bit * floor(x / 2^t), or bit * (one more), to `out`; |x| < 2^(k-2).

    Returns `out`, or the share minus `minus`. 1 <= t <= k - 2. `flip` is a share of y; `flip_low`,
    `low`, `top` and `flip_top` are shares of what `deal_inject_exact` returns. Only the low t + 1
    bits of `top` and `flip_top` matter: they may come `packed`, as that many planes. The share of
    the result is (1 - 2 b) (A flip - flip_low + B flip_top) + b (B top - low), plus b A if `first`.
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
    """Returns low and y low of w = -mask, then the bits top and y AND top, packed; `bits` are y.

    `inject_exact_share` takes shares of them.
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
    """Replaces five pads with y, y low, low, top and y AND top, minus the pad each.

    The values are those of `deal_inject_exact`; the results are partners of the pads as shares.
    """
    mask = mask.contiguous()
    ring, mask = _checked(bits, mask, *pads)
    _check_shift(ring, t)
    if gpu := gpu_for(bits, mask, *pads):
        return gpu.correct_inject_exact(bits, mask, t, pads)
    native = native_for(bits, mask, *pads)
    if native is None:
        return reference.correct_inject_exact(bits, mask, t, pads)
    addresses = _addresses(bits, mask, *pads)
    getattr(native, f"correct_inject_exact{ring.bits}")(addresses, t, mask.numel())
    return list(pads)


def _either(out: Tensor | None, minus: Tensor | None) -> Tensor:
    """Returns the one that is given of `out` and `minus`."""
    if (out is None) == (minus is None):
        raise ConfigError("a share is added to out or to -minus", remedy="give one of them")
    return out if out is not None else cast(Tensor, minus)


def _words(like: Tensor) -> Tensor:
    """Returns empty packed words for one bit of each element."""
    return like.new_empty(num_words(like.numel()), dtype=torch.int64)


def _addresses(*tensors: Tensor) -> list[int]:
    return [address(tensor) for tensor in tensors]


def _checked(bits: Tensor | None, out: Tensor, *others: Tensor) -> tuple[Ring, Tensor]:
    """Returns the ring and `out`; raises unless dtypes, shapes and layouts fit."""
    ring = ring_of(out, *others)
    for tensor in (out, *others):
        if tensor.shape != out.shape or not tensor.is_contiguous():
            shapes = ", ".join(str(tuple(x.shape)) for x in (out, *others))
            limit = "contiguous tensors of one shape are needed"
            raise ConfigError(f"shapes {shapes}", limit=limit)
    if bits is None:
        return ring, out
    if bits.dtype != torch.int64 or not bits.is_contiguous():
        raise ConfigError(f"bits: dtype={bits.dtype}", limit="packed words are contiguous int64")
    if bits.numel() != (needed := num_words(out.numel())):
        limit = f"shape {tuple(out.shape)} needs {needed}"
        raise ConfigError(f"bits: {bits.numel()} words", limit=limit)
    return ring, out


def _check_shift(ring: Ring, t: int) -> None:
    if not 1 <= t <= ring.bits - 2:
        limit = f"an exact truncation in this ring is by 1..{ring.bits - 2} bits"
        raise ConfigError(f"t={t}", limit=limit)
