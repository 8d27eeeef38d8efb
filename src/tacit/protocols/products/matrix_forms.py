"""Every bilinear operation as products of matrices, with one sum of products for each result.

Left is (batch, m, k) and comes from the first operand, right is (batch, k, n) and comes from the
second; `finish` makes the operation's result of their product. All three are linear, so parties can
apply them to shares.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from math import prod
from typing import NamedTuple

import torch
from torch import Tensor

from ...errors import ConfigError
from ...ring import Window
from .bilinear import Bilinear, Conv, ConvGradInput, ConvGradWeight, Einsum, MatMul, Mul


class MatrixForm(NamedTuple):
    """The matrices of an operation on two operands, and what makes its result of their product."""

    left: Tensor
    right: Tensor
    finish: Callable[[Tensor], Tensor]


def matrix_form(op: Bilinear, a: Tensor, b: Tensor) -> MatrixForm:
    """Returns the operands of an operation as matrices. Local."""
    if isinstance(op, Mul):
        return _elements(op, a, b)
    if isinstance(op, MatMul):
        return _matmul(op, a, b)
    if isinstance(op, Einsum):
        return MatrixForm(*op.matrices(a, b), lambda made: op.finish(made, a.shape, b.shape))
    if isinstance(op, Conv):
        return _conv(op, a, b)
    if isinstance(op, ConvGradInput):
        return _grad_input(op, a, b)
    if isinstance(op, ConvGradWeight):
        return _grad_weight(op, a, b)
    raise ConfigError(f"{op} has no form as matrices")


def _elements(op: Mul, a: Tensor, b: Tensor) -> MatrixForm:
    shape = op.shape(a.shape, b.shape)
    left, right = (x.expand(shape).reshape(-1, 1, 1) for x in (a, b))
    return MatrixForm(left, right, lambda made: made.reshape(shape))


def _matmul(op: MatMul, a: Tensor, b: Tensor) -> MatrixForm:
    """A matrix for a whole batch is multiplied once, by all rows of the batch."""
    shape = op.shape(a.shape, b.shape)
    left = a if a.dim() > 1 else a.unsqueeze(0)
    right = b if b.dim() > 1 else b.unsqueeze(1)
    if right.dim() == 2:
        rows = prod(left.shape[:-1])
        left, right = left.reshape(1, rows, left.shape[-1]), right.unsqueeze(0)
    else:
        batch = torch.broadcast_shapes(left.shape[:-2], right.shape[:-2])
        left, right = (x.expand(*batch, *x.shape[-2:]).flatten(0, -3) for x in (left, right))
    return MatrixForm(left, right, lambda made: made.reshape(shape))


# Convolutions: a column for each place of the window, in each group of channels ------------------


def _conv(op: Conv, image: Tensor, weight: Tensor) -> MatrixForm:
    groups, shape = op.window.groups, op.shape(image.shape, weight.shape)
    right = weight.reshape(groups, weight.shape[0] // groups, -1).mT

    def finish(made: Tensor) -> Tensor:
        return made.mT.reshape(shape[1], shape[0], *shape[2:]).transpose(0, 1)

    return MatrixForm(_columns(image, weight.shape[2:], op.window).mT, right, finish)


def _grad_input(op: ConvGradInput, weight: Tensor, grad: Tensor) -> MatrixForm:
    groups = op.window.groups
    left = weight.reshape(groups, weight.shape[0] // groups, -1).mT
    places = grad.shape[2:]

    def finish(made: Tensor) -> Tensor:
        return _folded(made, op.input_shape, weight.shape[2:], places, op.window)

    return MatrixForm(left, _channels(grad, groups), finish)


def _grad_weight(op: ConvGradWeight, image: Tensor, grad: Tensor) -> MatrixForm:
    left = _columns(image, op.weight_shape[2:], op.window)
    right = _channels(grad, op.window.groups).mT
    return MatrixForm(left, right, lambda made: made.mT.reshape(op.weight_shape))


def _channels(grad: Tensor, groups: int) -> Tensor:
    """(batch, channels, *places) as (groups, channels of a group, batch * places)."""
    return grad.transpose(0, 1).reshape(groups, grad.shape[1] // groups, -1)


def _columns(image: Tensor, kernel: Sequence[int], window: Window) -> Tensor:
    """(groups, channels of a group * kernel, batch * places): what the window covers."""
    widths = [width for size in reversed(window.padding) for width in (size, size)]
    covered = torch.nn.functional.pad(image, widths)
    for dim, size in enumerate(kernel, 2):
        reach = (size - 1) * window.dilation[dim - 2] + 1
        covered = covered.unfold(dim, reach, window.stride[dim - 2])
        covered = covered[..., :: window.dilation[dim - 2]]
    dims = len(kernel)
    order = [1, *range(2 + dims, 2 + 2 * dims), 0, *range(2, 2 + dims)]
    rows = image.shape[1] // window.groups * prod(kernel)
    return covered.permute(order).reshape(window.groups, rows, -1)


def _folded(
    columns: Tensor,
    shape: Sequence[int],
    kernel: Sequence[int],
    places: Sequence[int],
    window: Window,
) -> Tensor:
    """The transpose of `_columns`: adds every column to what the window covers there."""
    batch, channels, *sizes = shape
    padded = [size + 2 * pad for size, pad in zip(sizes, window.padding, strict=True)]
    image = torch.zeros(batch, channels, *padded, dtype=columns.dtype)
    spread = columns.reshape(channels, *kernel, batch, *places)
    everything = slice(None)
    for offset in product(*map(range, kernel)):
        steps = zip(offset, window.dilation, window.stride, places, strict=True)
        where = [slice(o * d, o * d + s * (n - 1) + 1, s) for o, d, s, n in steps]
        column: tuple[slice | int, ...] = (everything, *offset)
        image[(everything, everything, *where)] += spread[column].transpose(0, 1)
    inner = [slice(p, p + size) for p, size in zip(window.padding, sizes, strict=True)]
    return image[(everything, everything, *inner)]
