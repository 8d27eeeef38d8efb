"""What follows a product of integers in a network: floats, bias and ReLU in one pass; max-pooling.

Results are those of torch's operations, one after the other, bit by bit; on a GPU they are those.
"""

from __future__ import annotations

from math import prod
from types import ModuleType
from typing import NamedTuple

import torch
from torch import Tensor

from ..ring.reference import activations as reference
from .backend import address, native_for


class Integers(NamedTuple):
    """A product of integers of 32 or 64 bits in order, which stands for values 2^exponent."""

    values: Tensor
    exponent: int


class Bias(NamedTuple):
    """Numbers that are added to a product along one of its dimensions."""

    values: Tensor  # of one dimension
    dim: int

    def like(self, shape: torch.Size) -> Tensor:
        """Returns the numbers with dimensions that meet those of the shape."""
        return self.values.view(-1, *(1 for _ in shape[self.dim + 1 :]))


class Pooled(NamedTuple):
    """The largest number of each 2 x 2 window, and its place in the plane."""

    values: Tensor
    places: Tensor


def finish_product(x: Tensor, exponent: int, bias: Bias | None, *, relu: bool) -> Tensor:
    """Returns x 2^exponent + bias as float32, and its ReLU if asked; x is int32 or int64."""
    native = _native(x)
    if native is None:
        shown = None if bias is None else bias.like(x.shape)
        return reference.finish(x, exponent, shown, relu=relu)
    out = torch.empty(x.shape, dtype=torch.float32)
    kernel = native.finish64 if x.dtype == torch.int64 else native.finish32
    values, sizes = _layout(x, bias)
    kernel(address(x), 2.0**exponent, address(values), relu, address(out), *sizes)
    return out


def max_pool2x2(x: Tensor) -> Pooled:
    """Returns the largest number of each 2 x 2 window of float32; a last odd line is left out."""
    native = _native(x)
    if native is None or x.dtype != torch.float32:
        return Pooled(*reference.max_pool2x2(x))
    shape = (*x.shape[:-2], x.shape[-2] // 2, x.shape[-1] // 2)
    pooled = Pooled(torch.empty(shape), torch.empty(shape, dtype=torch.int64))
    addresses = (address(one) for one in (x, *pooled))
    native.max_pool2x2(*addresses, x.shape[:-2].numel(), *x.shape[-2:])
    return pooled


def max_pool2x2_backward(
    grad: Tensor, x: Tensor, places: Tensor, after_relu: Tensor | None = None
) -> Tensor:
    """Returns the gradient by x, of which only the shape is used, from that of its windows.

    after_relu: if x is the result of ReLU, the largest numbers of the windows; the gradient is that
    by the input of ReLU then. Where it is not 0, x is the largest number of a window: a quarter of
    ReLU's work is left. torch's kernels are the fastest for both.
    """
    grad = grad if after_relu is None else reference.relu_backward(grad, after_relu)
    return reference.max_pool2x2_backward(grad, x, places)


def _layout(x: Tensor, bias: Bias | None) -> tuple[Tensor, tuple[int, int, int]]:
    """Returns the numbers of a bias, and the sizes of x before it, along it and behind it."""
    if bias is None:
        return torch.zeros(1), (1, 1, x.numel())
    shape, dim = x.shape, bias.dim
    return bias.values.contiguous(), (prod(shape[:dim]), shape[dim], prod(shape[dim + 1 :]))


def _native(x: Tensor) -> ModuleType | None:
    native = native_for(x) if x.is_contiguous() else None
    return native if hasattr(native, "max_pool2x2") else None
