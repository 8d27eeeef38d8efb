"""What follows a product of integers in a network, as torch's own operations."""

from __future__ import annotations

import torch
from torch import Tensor

aten = torch.ops.aten
WINDOW = ([2, 2], [2, 2], [0, 0], [1, 1], False)  # kernel, stride, padding, dilation, ceil_mode


def finish(x: Tensor, exponent: int, bias: Tensor | None, *, relu: bool) -> Tensor:
    """Returns x 2^exponent + bias as float32, and its ReLU if asked."""
    y = x.float() * 2.0**exponent
    y = y if bias is None else y + bias
    return y.relu() if relu else y


def max_pool2x2(x: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the largest number of each 2 x 2 window, and its place in the plane."""
    pooled, places = aten.max_pool2d_with_indices(x, *WINDOW)
    return pooled, places


def max_pool2x2_backward(grad: Tensor, x: Tensor, places: Tensor) -> Tensor:
    """Returns the gradient by the input x, of which only the shape is used."""
    made: Tensor = aten.max_pool2d_with_indices_backward(grad, x, *WINDOW, places)
    return made


def relu_backward(grad: Tensor, result: Tensor) -> Tensor:
    """Returns the gradient by the input of ReLU, from its result."""
    made: Tensor = aten.threshold_backward(grad, result, 0)
    return made
