"""Products mod 2^k by definition: integer tensors wrap, and that is the ring.

A convolution is a sum over the taps of its kernel: tap t multiplies weight[..., t] with the window
of the padded input that lies under t. Its two gradients walk the same taps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import torch
from torch import Tensor

Tap = tuple[int, ...]
Window = tuple[slice, ...]


def matmul(a: Tensor, b: Tensor) -> Tensor:
    """sum_k a[..., i, k] b[..., k, j], with torch's broadcasting."""
    return torch.matmul(a, b)


def conv(
    x: Tensor,
    weight: Tensor,
    *,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Tensor:
    """out[n, o, p] = sum_{c, t} weight[o, c, t] x[n, c, p stride + t dilation - padding]."""
    sizes = output_sizes(x.shape[2:], weight.shape[2:], stride, padding, dilation)
    x = by_group(pad(x, padding), groups)
    weight = weight.unflatten(0, (groups, -1))
    out = x.new_zeros(x.shape[0], *weight.shape[:2], *sizes)
    for tap, window in taps(weight.shape[3:], sizes, stride, dilation):
        out += torch.einsum("ngc...,goc->ngo...", x[..., *window], weight[..., *tap])
    return out.flatten(1, 2)


def conv_grad_input(
    input_sizes: Sequence[int],
    weight: Tensor,
    grad: Tensor,
    *,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Tensor:
    """The gradient of `conv` by x, which has `input_sizes`: every tap adds where it read."""
    sizes = [n + 2 * p for n, p in zip(input_sizes, padding, strict=True)]
    weight = weight.unflatten(0, (groups, -1))
    grad = by_group(grad, groups)
    out = grad.new_zeros(grad.shape[0], groups, weight.shape[2], *sizes)
    for tap, window in taps(weight.shape[3:], grad.shape[3:], stride, dilation):
        out[..., *window] += torch.einsum("ngo...,goc->ngc...", grad, weight[..., *tap])
    inside = [slice(p, p + n) for n, p in zip(input_sizes, padding, strict=True)]
    return out[..., *inside].flatten(1, 2)


def conv_grad_weight(
    x: Tensor,
    kernel_sizes: Sequence[int],
    grad: Tensor,
    *,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Tensor:
    """The gradient of `conv` by the weight: every tap sums what it multiplied."""
    x = by_group(pad(x, padding), groups)
    grad = by_group(grad, groups)
    out = x.new_zeros(groups, grad.shape[2], x.shape[2], *kernel_sizes)
    for tap, window in taps(kernel_sizes, grad.shape[3:], stride, dilation):
        columns = x[..., *window].flatten(3)
        out[..., *tap] = torch.einsum("ngop,ngcp->goc", grad.flatten(3), columns)
    return out.flatten(0, 1)


def output_sizes(
    sizes: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> list[int]:
    return [
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, k, s, p, d in zip(sizes, kernel, stride, padding, dilation, strict=True)
    ]


def pad(x: Tensor, padding: Sequence[int]) -> Tensor:
    """Zeros on both sides of each spatial dimension."""
    return torch.nn.functional.pad(x, [side for p in reversed(padding) for side in (p, p)])


def by_group(x: Tensor, groups: int) -> Tensor:
    return x.unflatten(1, (groups, x.shape[1] // groups))


def taps(
    kernel: Sequence[int], sizes: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> Iterator[tuple[Tap, Window]]:
    """Every tap of the kernel, with the part of the padded input that it meets."""
    for tap in product(*map(range, kernel)):
        yield (
            tap,
            tuple(
                slice(t * d, t * d + s * (n - 1) + 1, s)
                for t, n, s, d in zip(tap, sizes, stride, dilation, strict=True)
            ),
        )
