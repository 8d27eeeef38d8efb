"""Layers with torch's arguments."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import nn
from torch.nn import functional

from .operators import Operator
from .torch_module import Layer


class Linear(Layer):
    """The linear map x A^T + b."""

    torch_class = nn.Linear


class Conv1d(Layer):
    """A convolution along one dimension."""

    torch_class = nn.Conv1d


class Conv2d(Layer):
    """A convolution along two dimensions."""

    torch_class = nn.Conv2d


class ConvTranspose1d(Layer):
    """A transposed convolution along one dimension."""

    torch_class = nn.ConvTranspose1d


class ConvTranspose2d(Layer):
    """A transposed convolution along two dimensions."""

    torch_class = nn.ConvTranspose2d


class BatchNorm1d(Layer):
    """Batch normalisation of (N, C) or (N, C, L)."""

    torch_class = nn.BatchNorm1d


class BatchNorm2d(Layer):
    """Batch normalisation of (N, C, H, W)."""

    torch_class = nn.BatchNorm2d


class BatchNorm3d(Layer):
    """Batch normalisation of (N, C, D, H, W)."""

    torch_class = nn.BatchNorm3d


class GroupNorm(Layer):
    """Normalisation of groups of channels."""

    torch_class = nn.GroupNorm


class ReLU(Layer):
    """max(x, 0)."""

    torch_class = nn.ReLU


class ReLU6(Layer):
    """min(max(x, 0), 6)."""

    torch_class = nn.ReLU6


class Hardtanh(Layer):
    """x between `min_val` and `max_val`, the nearest of them elsewhere."""

    torch_class = nn.Hardtanh


class Sigmoid(Layer):
    """1 / (1 + exp(-x))."""

    torch_class = nn.Sigmoid


class Tanh(Layer):
    """The hyperbolic tangent."""

    torch_class = nn.Tanh


class Softmax(Layer):
    """Softmax along `dim`."""

    torch_class = nn.Softmax


class LogSoftmax(Layer):
    """The logarithm of softmax along `dim`."""

    torch_class = nn.LogSoftmax


class Dropout(Layer):
    """Zeros at random places in training, each with probability p."""

    torch_class = nn.Dropout


class DropoutNd(Layer):
    """Zeros for whole channels in training, each with probability p."""

    torch_class: ClassVar[type[nn.Module]] = nn.Dropout2d


class Dropout2d(DropoutNd):
    """Zeros for whole channels of (N, C, H, W)."""


class Dropout3d(DropoutNd):
    """Zeros for whole channels of (N, C, D, H, W)."""

    torch_class = nn.Dropout3d


class ConstantPad1d(Layer):
    """A constant around the last dimension."""

    torch_class = nn.ConstantPad1d


class ConstantPad2d(Layer):
    """A constant around the last two dimensions."""

    torch_class = nn.ConstantPad2d


class ConstantPad3d(Layer):
    """A constant around the last three dimensions."""

    torch_class = nn.ConstantPad3d


class AvgPool1d(Layer):
    """Means of windows along one dimension."""

    torch_class = nn.AvgPool1d


class AvgPool2d(Layer):
    """Means of windows."""

    torch_class = nn.AvgPool2d


class MaxPool1d(Layer):
    """Maxima of windows along one dimension."""

    torch_class = nn.MaxPool1d


class MaxPool2d(Layer):
    """Maxima of windows."""

    torch_class = nn.MaxPool2d

    def __init__(
        self, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False
    ) -> None:
        super().__init__(kernel_size, stride, padding, ceil_mode=ceil_mode)


class AdaptiveAvgPool2d(Operator):
    """Means of as many windows as `output_size` says, here or in the call."""

    def __init__(self, output_size: Any = None) -> None:
        super().__init__()
        self.output_size = output_size

    def compute(self, x: Any, output_size: Any = None) -> Any:
        """Returns the means."""
        size = self.output_size if output_size is None else output_size
        return functional.adaptive_avg_pool2d(x, size)


class AdaptiveMaxPool2d(AdaptiveAvgPool2d):
    """Maxima of as many windows as `output_size` says, here or in the call."""

    def compute(self, x: Any, output_size: Any = None) -> Any:
        """Returns the maxima."""
        size = self.output_size if output_size is None else output_size
        return functional.adaptive_max_pool2d(x, size)


class CosineSimilarity(Layer):
    """The cosine of the angle between vectors along `dim`."""

    torch_class = nn.CosineSimilarity
