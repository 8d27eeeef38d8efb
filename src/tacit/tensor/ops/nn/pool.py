"""Poolings: the largest or the mean of moving windows, and of dimensions divided evenly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, update_wrapper
from math import prod
from typing import Any

import torch
from torch import Tensor

from ....errors import UnsupportedOp
from ....fixedpoint import (
    Grid,
    Numbers,
    Operand,
    Value,
    adaptive_windows,
    sliding_windows,
)
from ...table import implements

aten = torch.ops.aten

Sizes = Sequence[int]
Rule = Callable[..., Any]


def _in_two_and_three_dims(name: str) -> Callable[[Rule], Rule]:
    """Registers a rule for two and three dimensions; its first argument is their number."""

    def register(body: Rule) -> Rule:
        for dims in (2, 3):
            rule = update_wrapper(partial(body, dims), body)
            implements(getattr(aten, name.format(dims)).default)(rule)
        return body

    return register


@_in_two_and_three_dims("max_pool{}d_with_indices")
def max_pool_with_indices(
    dims: int,
    n: Numbers,
    self: Value,
    kernel_size: Sizes,
    stride: Sizes = (),
    padding: Sizes = (0,),
    dilation: Sizes = (1,),
    ceil_mode: bool = False,
) -> tuple[Value, Value]:
    """The largest of each window, and its place; which one won is saved for the gradient."""
    grid = _grid(dims, self.shape, kernel_size, stride, padding, dilation, ceil_mode)
    return n.max_pool(self, grid)


@_in_two_and_three_dims("max_pool{}d_with_indices_backward")
def max_pool_with_indices_backward(
    dims: int,
    n: Numbers,
    grad_output: Operand,
    self: Value,
    kernel_size: Sizes,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    ceil_mode: bool,
    indices: Operand,
) -> Value:
    """Each gradient at the place that won its window, by the bits that the forward pass saved."""
    grid = _grid(dims, self.shape, kernel_size, stride, padding, dilation, ceil_mode)
    return n.max_pool_backward(grad_output, _winners("max_pool", indices), grid)


@_in_two_and_three_dims("adaptive_max_pool{}d")
def adaptive_max_pool(
    dims: int, n: Numbers, self: Value, output_size: Sizes
) -> tuple[Value, Value]:
    """The largest of each of output_size windows, and its place."""
    return n.max_pool(self, _adaptive(dims, self.shape, output_size))


@_in_two_and_three_dims("adaptive_max_pool{}d_backward")
def adaptive_max_pool_backward(
    dims: int, n: Numbers, grad_output: Tensor | Value, self: Value, indices: Operand
) -> Value:
    """Each gradient at the place that won its window."""
    grid = _adaptive(dims, self.shape, grad_output.shape[-dims:])
    return n.max_pool_backward(grad_output, _winners("adaptive_max_pool", indices), grid)


@_in_two_and_three_dims("avg_pool{}d")
def avg_pool(
    dims: int,
    n: Numbers,
    self: Value,
    kernel_size: Sizes,
    stride: Sizes = (),
    padding: Sizes = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Value:
    """Local; the division by the size of the windows is pending."""
    grid = _grid(dims, self.shape, kernel_size, stride, padding, (1,), ceil_mode)
    counted = _along(padding, dims) if count_include_pad else [0] * dims
    return _weighted(n, n.sum_pool(self, grid), _mean_weights(grid, counted, divisor_override))


@_in_two_and_three_dims("avg_pool{}d_backward")
def avg_pool_backward(
    dims: int,
    n: Numbers,
    grad_output: Operand,
    self: Tensor | Value,
    kernel_size: Sizes,
    stride: Sizes,
    padding: Sizes,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Value:
    """Each gradient spread over its window. Local."""
    grid = _grid(dims, self.shape, kernel_size, stride, padding, (1,), ceil_mode)
    counted = _along(padding, dims) if count_include_pad else [0] * dims
    grad = _weighted(n, n.operand(grad_output), _mean_weights(grid, counted, divisor_override))
    return n.sum_pool_backward(grad, grid)


@_in_two_and_three_dims("_adaptive_avg_pool{}d")
def adaptive_avg_pool(dims: int, n: Numbers, self: Value, output_size: Sizes) -> Value:
    """The means of output_size windows. Local; a division is pending."""
    grid = _adaptive(dims, self.shape, output_size)
    return _weighted(n, n.sum_pool(self, grid), _mean_weights(grid, [0] * dims))


@_in_two_and_three_dims("_adaptive_avg_pool{}d_backward")
def adaptive_avg_pool_backward(
    dims: int, n: Numbers, grad_output: Operand, self: Tensor | Value
) -> Value:
    """Each gradient spread over its window. Local."""
    grad = n.operand(grad_output)
    grid = _adaptive(dims, self.shape, grad.shape[-dims:])
    return n.sum_pool_backward(_weighted(n, grad, _mean_weights(grid, [0] * dims)), grid)


def _along(sizes: Sizes, dims: int) -> list[int]:
    return list(sizes) * dims if len(sizes) == 1 else list(sizes)


def _grid(
    dims: int,
    shape: Sizes,
    kernel_size: Sizes,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    ceil_mode: bool,
) -> Grid:
    """The windows along each of the last dimensions."""
    kernel = _along(kernel_size, dims)
    settings = zip(
        shape[-dims:],
        kernel,
        _along(stride, dims) if len(stride) else kernel,
        _along(padding, dims),
        _along(dilation, dims),
        strict=True,
    )
    return [sliding_windows(*along, ceil_mode=ceil_mode) for along in settings]


def _adaptive(dims: int, shape: Sizes, output_size: Sizes) -> Grid:
    counts = _along(output_size, dims)
    return [adaptive_windows(*along) for along in zip(shape[-dims:], counts, strict=True)]


def _mean_weights(grid: Grid, padding: Sizes, divisor: int | None = None) -> Tensor | float:
    """The weight of each element in the mean of its window; one number if all are equal."""
    if divisor is not None:
        return 1.0 / divisor
    equal = [windows.equal_count(pad) for windows, pad in zip(grid, padding, strict=True)]
    numbers = [number for number in equal if number is not None]
    if len(numbers) == len(equal):
        return 1.0 / prod(numbers)
    counts = torch.ones((), dtype=torch.float64)
    for windows, pad in zip(grid, padding, strict=True):
        counts = counts.unsqueeze(-1) * windows.counts(pad)
    return counts.reciprocal()


def _weighted(n: Numbers, x: Value, weights: Tensor | float) -> Value:
    return n.convert(n.mul(x, weights), x.dtype)


def _winners(name: str, indices: Operand) -> Value:
    winners = indices.saved.get("winners") if isinstance(indices, Value) else None
    if winners is None:
        raise UnsupportedOp(
            f"{name}_backward needs the indices that {name} of the secret returned, unchanged"
        )
    return winners
