"""Bits into the ring and exact truncation (`tacit.kernels.injection`), on contiguous tensors.

Functions that return a share add it to `out`, or to -minus in new memory.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from . import injection_kernels
from .jit import Kernel, blocks

FLAT = 1024  # elements of a program
TILE = 16  # words of 64 elements of a program that packs bits


def inject_share(
    bits: Tensor,
    opened: Tensor,
    flip: Tensor,
    product: Tensor,
    own: Tensor,
    *,
    first: bool,
    out: Tensor | None,
    minus: Tensor | None = None,
) -> Tensor:
    """Adds (1 - 2 b) (opened flip + product) + b own, and b opened if `first`."""
    return _launch_sum(
        injection_kernels.inject_share, out, minus, (bits, opened, flip, product, own), -first
    )


def flip_share(bits: Tensor, flip: Tensor, *, first: bool, out: Tensor) -> Tensor:
    """Adds (1 - 2 b) flip, and b if `first`, to `out`; returns it."""
    return _launch(injection_kernels.flip_share, (out, bits, flip), int(first))


def deal_flip(bits: Tensor, pad_flip: Tensor) -> Tensor:
    """Replaces `pad_flip` with y - pad_flip; returns it."""
    return _launch(injection_kernels.deal_flip, (pad_flip, bits))


def deal_injection(
    bits: Tensor, mask: Tensor, pad_flip: Tensor, pad_product: Tensor
) -> tuple[Tensor, Tensor]:
    """Replaces the pads with y - pad_flip and y mask - pad_product; returns them."""
    return _launch(
        injection_kernels.deal_injection, (pad_flip, pad_product, bits, mask)
    ), pad_product


def exact_share(
    opened: Tensor,
    quotient: Tensor,
    top: Tensor,
    t: int,
    *,
    first: bool,
    out: Tensor | None,
    minus: Tensor | None = None,
) -> Tensor:
    """Adds a share of floor(x / 2^t), or of one more."""
    return _launch_sum(
        injection_kernels.exact_share, out, minus, (opened, quotient, top), -first, t
    )


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
    out: Tensor | None,
    minus: Tensor | None = None,
) -> Tensor:
    """Adds a share of bit * floor(x / 2^t), or bit * (one more).

    If `packed`, `top` and `flip_top` are planes of t + 1 bits.
    """
    pointers = (bits, opened, flip, flip_low, low, top, flip_top)
    numbers = -first, t, t + 1 if packed else 0
    return _launch_sum(injection_kernels.inject_exact_share, out, minus, pointers, *numbers)


def deal_exact(mask: Tensor, t: int) -> tuple[Tensor, Tensor]:
    """Returns the quotient -mask >> t and the packed top bits of -mask."""
    quotient, top = torch.empty_like(mask), _words(mask)
    if count := mask.numel():
        grid = (blocks(len(top), TILE), 1, 1)
        injection_kernels.deal_exact(
            grid, (mask, quotient, top, count, t), (8 * mask.element_size(), TILE)
        )
    return quotient, top


def deal_inject_exact(bits: Tensor, mask: Tensor, t: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Returns low and y low of -mask, then the top bits and y AND them, packed."""
    made = torch.empty_like(mask), torch.empty_like(mask), _words(mask), _words(mask)
    if count := mask.numel():
        grid = (blocks(len(made[2]), TILE), 1, 1)
        arguments = (bits, mask, *made, count, t)
        injection_kernels.deal_inject_exact(grid, arguments, (8 * mask.element_size(), TILE))
    return made


def correct_inject_exact(
    bits: Tensor, mask: Tensor, t: int, pads: Sequence[Tensor]
) -> list[Tensor]:
    """Replaces the pads with y, y low, low, top and y AND top, minus each; returns them."""
    pads = list(pads)
    _launch(injection_kernels.correct_inject_exact, (*pads, bits, mask), t)
    return pads


def _launch_sum(
    kernel: Kernel,
    out: Tensor | None,
    minus: Tensor | None,
    pointers: tuple[Tensor, ...],
    *numbers: int,
) -> Tensor:
    """Launches a kernel that adds to `out`, or to -minus in new memory; returns the sum."""
    begin = out if minus is None else minus
    assert begin is not None
    to = torch.empty_like(begin) if out is None else out
    return _launch(kernel, (to, begin, *pointers), *numbers, -1 if out is None else 0)


def _launch(kernel: Kernel, pointers: tuple[Tensor, ...], *numbers: int) -> Tensor:
    """Launches a kernel for all elements of the first of the pointers; returns that."""
    out = pointers[0]
    if count := out.numel():
        grid = (blocks(count, FLAT), 1, 1)
        kernel(grid, (*pointers, count, *numbers), (8 * out.element_size(), FLAT))
    return out


def _words(like: Tensor) -> Tensor:
    """Returns empty packed words for one bit of each element."""
    return like.new_empty(blocks(like.numel(), 64), dtype=torch.int64)
