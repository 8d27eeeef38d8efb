"""Products mod 2^k by definition: integer tensors wrap, and that is the ring.

A convolution is a sum over the taps of its kernel: tap t multiplies weight[..., t] with the part
of the padded input that lies under t. Its two gradients walk the same taps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import torch
from torch import Tensor

from ..window import Window

Tap = tuple[Any, ...]  # of integers
Part = tuple[Any, ...]  # of slices


def matmul(a: Tensor, b: Tensor) -> Tensor:
    """Returns sum_k a[..., i, k] b[..., k, j], with torch's broadcasting."""
    return torch.matmul(a, b)


def conv(x: Tensor, weight: Tensor, window: Window) -> Tensor:
    """Returns sum_{c, t} weight[o, c, t] x[n, c, p stride + t dilation - padding] at [n, o, p]."""
    sizes = window.output_sizes(x.shape[2:], weight.shape[2:])
    x = by_group(pad(x, window), window)
    weight = weight.unflatten(0, (window.groups, -1))
    out = x.new_zeros(x.shape[0], *weight.shape[:2], *sizes)
    for tap, part in taps(weight.shape[3:], sizes, window):
        out += torch.einsum("ngc...,goc->ngo...", x[..., *part], weight[..., *tap])
    return out.flatten(1, 2)


def conv_grad_input(
    input_sizes: Sequence[int], weight: Tensor, grad: Tensor, window: Window
) -> Tensor:
    """Returns the gradient of `conv` by x, of `input_sizes`: every tap adds where it read."""
    sizes = [n + 2 * p for n, p in zip(input_sizes, window.padding, strict=True)]
    weight = weight.unflatten(0, (window.groups, -1))
    grad = by_group(grad, window)
    out = grad.new_zeros(grad.shape[0], window.groups, weight.shape[2], *sizes)
    for tap, part in taps(weight.shape[3:], grad.shape[3:], window):
        out[..., *part] += torch.einsum("ngo...,goc->ngc...", grad, weight[..., *tap])
    inside: Part = tuple(slice(p, p + n) for n, p in zip(input_sizes, window.padding, strict=True))
    return out[..., *inside].flatten(1, 2)


def conv_grad_weight(
    x: Tensor, kernel_sizes: Sequence[int], grad: Tensor, window: Window
) -> Tensor:
    """Returns the gradient of `conv` by the weight: every tap sums what it multiplied."""
    x = by_group(pad(x, window), window)
    grad = by_group(grad, window)
    out = x.new_zeros(window.groups, grad.shape[2], x.shape[2], *kernel_sizes)
    for tap, part in taps(kernel_sizes, grad.shape[3:], window):
        columns = x[..., *part].flatten(3)
        out[..., *tap] = torch.einsum("ngop,ngcp->goc", grad.flatten(3), columns)
    return out.flatten(0, 1)


def pad(x: Tensor, window: Window) -> Tensor:
    """Returns x with zeros on both sides of each spatial dimension."""
    sides = [side for p in reversed(window.padding) for side in (p, p)]
    return torch.nn.functional.pad(x, sides)


def by_group(x: Tensor, window: Window) -> Tensor:
    """Returns x of shape (image, channel, ...) as (image, group, channel of the group, ...)."""
    return x.unflatten(1, (window.groups, x.shape[1] // window.groups))


def taps(kernel: Sequence[int], sizes: Sequence[int], window: Window) -> Iterator[tuple[Tap, Part]]:
    """Gives every tap of the kernel, with the part of the padded input that it meets."""
    for tap in product(*map(range, kernel)):
        steps = zip(tap, sizes, window.stride, window.dilation, strict=True)
        yield tap, tuple(slice(t * d, t * d + s * (n - 1) + 1, s) for t, n, s, d in steps)
