"""Operators of ONNX graphs as modules: stateless, with one list of inputs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from ....errors import ConfigError
from ..cryptensor import CrypTensor
from ..wrapping import unwrapped
from .base_module import Module, wrapped


class Operator(Module):
    """A function of tensors, given one by one, in one list, or as the rows of one tensor."""

    rows = 0  # how many rows of one tensor are the inputs, if it needs as many

    def forward(self, *inputs: Any, **options: Any) -> Any:
        """Returns `compute` of the inputs."""
        if len(inputs) == 1 and isinstance(inputs[0], list | tuple):
            inputs = tuple(inputs[0])
        if self.rows and len(inputs) == 1:
            inputs = tuple(inputs[0].unbind())
        return wrapped(self.compute(*unwrapped(inputs), **options))

    def compute(self, *inputs: Any) -> Any:
        """Returns the function of tensors of torch, secret or plain; subclasses define it."""
        raise NotImplementedError


class Add(Operator):
    """a + b."""

    def compute(self, a: Any, b: Any) -> Any:
        """Returns the sum."""
        return a + b


class Sub(Operator):
    """a - b."""

    def compute(self, a: Any, b: Any) -> Any:
        """Returns the difference."""
        return a - b


class Mul(Operator):
    """a * b."""

    def compute(self, a: Any, b: Any) -> Any:
        """Returns the product."""
        return a * b


class Div(Operator):
    """a / b."""

    def compute(self, a: Any, b: Any) -> Any:
        """Returns the quotient."""
        return a / b


class Pow(Operator):
    """a^b for a public exponent b."""

    def compute(self, a: Any, b: Any) -> Any:
        """Returns the power."""
        exponent = b.item() if isinstance(b, Tensor) else b
        return a ** (int(exponent) if exponent == int(exponent) else exponent)


class Sqrt(Operator):
    """The square root."""

    def compute(self, x: Any) -> Any:
        """Returns the root."""
        return x.sqrt()


class Exp(Operator):
    """The exponential function."""

    def compute(self, x: Any) -> Any:
        """Returns the exponential."""
        return x.exp()


class Erf(Operator):
    """The error function."""

    def compute(self, x: Any) -> Any:
        """Returns the error function."""
        return x.erf()


class Equal(Operator):
    """1 where a = b, 0 elsewhere."""

    def compute(self, a: Any, b: Any) -> Any:
        """Returns the bits."""
        return a == b


class Where(Operator):
    """a where the condition is 1, b where it is 0."""

    rows = 3

    def compute(self, condition: Any, a: Any, b: Any) -> Any:
        """Returns the chosen elements."""
        return torch.where(condition.bool(), a, b)


class MatMul(Operator):
    """The matrix product of two inputs, or of one input and a weight."""

    def __init__(self, weight: Any = None) -> None:
        super().__init__()
        if weight is not None:
            self.register_parameter("weight", weight)

    def compute(self, a: Any, b: Any = None) -> Any:
        """Returns the product."""
        return a @ (unwrapped(self.weight) if b is None else b)


class Gemm(Operator):
    """alpha A B + beta C, A and B transposed if asked."""

    rows = 3

    def __init__(
        self,
        alpha: float = 1.0,
        beta: float = 1.0,
        trans_a: bool = False,
        trans_b: bool = False,
    ) -> None:
        super().__init__()
        self.alpha, self.beta = alpha, beta
        self.trans_a, self.trans_b = trans_a, trans_b

    def compute(self, a: Any, b: Any, c: Any) -> Any:
        """Returns the sum."""
        product = (a.mT if self.trans_a else a) @ (b.mT if self.trans_b else b)
        return self.alpha * product + self.beta * c


class Conv(Operator):
    """A convolution whose weight, and perhaps bias, are inputs."""

    def __init__(self, stride: Any, padding: Any, dilation: Any, groups: int = 1) -> None:
        super().__init__()
        self.stride, self.padding, self.dilation = stride, padding, dilation
        self.groups = groups

    def compute(self, x: Any, weight: Any, bias: Any = None) -> Any:
        """Returns the convolution along one or two dimensions, as the weight has them."""
        function = functional.conv1d if weight.dim() == 3 else functional.conv2d
        return function(x, weight, bias, self.stride, self.padding, self.dilation, self.groups)


class BatchNormalization(Operator):
    """Batch normalisation whose weight, bias and statistics are inputs."""

    def __init__(self, eps: float = 1e-5, momentum: float = 0.1) -> None:
        super().__init__()
        self.eps, self.momentum = eps, momentum

    def compute(self, x: Any, weight: Any, bias: Any, mean: Any, variance: Any) -> Any:
        """Returns the result; in training also the new statistics, and None twice."""
        made = functional.batch_norm(
            x, mean, variance, weight, bias, self.training, self.momentum, self.eps
        )
        return (made, mean, variance, None, None) if self.training else made


class GlobalAveragePool(Operator):
    """The mean of each channel."""

    def compute(self, x: Any) -> Any:
        """Returns the means, with dimensions of size 1."""
        return x.float().mean(dim=tuple(range(2, x.dim())), keepdim=True)


class Mean(Operator):
    """The mean along dimensions."""

    def __init__(self, dim: Any, keepdim: bool = False) -> None:
        super().__init__()
        self.dim, self.keepdim = dim, keepdim

    def compute(self, x: Any) -> Any:
        """Returns the mean."""
        return x.mean(dim=self.dim, keepdim=self.keepdim)


class Sum(Mean):
    """The sum along dimensions."""

    def compute(self, x: Any) -> Any:
        """Returns the sum."""
        return x.sum(dim=self.dim, keepdim=self.keepdim)


class Constant(Operator):
    """A public tensor, which stays public in an encrypted module."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = torch.as_tensor(value).float()

    def compute(self, *inputs: Any) -> Any:
        """Returns the tensor, whatever the inputs are."""
        return self.value


class ConstantOfShape(Constant):
    """A public number, as often as the input says."""

    def compute(self, *size: Any) -> Any:
        """Returns a tensor of this size, given as numbers or as one list or tensor."""
        return self.value.expand(_integers(size[0] if len(size) == 1 else size))


class Range(Operator):
    """Public numbers from start to end."""

    def compute(self, start: Any, end: Any, step: Any = 1) -> Any:
        """Returns the numbers."""
        return torch.arange(start, end, step)


class Shape(Operator):
    """The sizes of a tensor, or one of them; they are public."""

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def compute(self, x: Any, dim: int | None = None) -> Any:
        """Returns the sizes."""
        wanted = self.dim if dim is None else dim
        return torch.tensor(x.shape if wanted is None else x.shape[wanted])


class Concat(Operator):
    """Tensors joined along a dimension."""

    def __init__(self, dimension: int) -> None:
        super().__init__()
        self.dimension = dimension

    def compute(self, *inputs: Any) -> Any:
        """Returns the joined tensor."""
        return torch.cat(inputs, self.dimension)


class Gather(Operator):
    """Slices of a tensor along a dimension, at public indices."""

    def __init__(self, dimension: int | None, indices: Any = None) -> None:
        super().__init__()
        self.dimension, self.indices = dimension, indices

    def forward(self, *inputs: Any, **options: Any) -> Any:
        """Returns the slices; secret indices are refused, as CrypTen does."""
        given = inputs[0] if isinstance(inputs[0], list | tuple) else inputs
        if any(isinstance(one, CrypTensor) for one in given[1:]):
            raise ConfigError(
                "the indices of Gather are secret",
                remedy="CrypTensor.gather and weighted_index take secret indices",
            )
        return super().forward(*inputs, **options)

    def compute(self, x: Any, indices: Any = None) -> Any:
        """Returns the slices, or elements of the flat tensor without a dimension."""
        chosen = torch.as_tensor(self.indices if indices is None else indices).long()
        if self.dimension is None or x.dim() == 0:
            return x.flatten()[chosen]
        return x[(slice(None),) * (self.dimension % x.dim()) + (chosen,)]


class Slice(Operator):
    """Parts of a tensor from `starts` to `ends` along `axes`."""

    def __init__(self, starts: Any, ends: Any, axes: Any = None) -> None:
        super().__init__()
        self.starts, self.ends, self.axes = starts, ends, axes

    def compute(self, x: Any, starts: Any = None, ends: Any = None, axes: Any = None) -> Any:
        """Returns the part."""
        first = _integers(self.starts if starts is None else starts)
        last = _integers(self.ends if ends is None else ends)
        along = self.axes if axes is None else axes
        for i, axis in enumerate(range(len(first)) if along is None else _integers(along)):
            x = x.narrow(axis, first[i], min(last[i], x.shape[axis]) - first[i])
        return x


class Transpose(Operator):
    """The dimensions in another order."""

    def __init__(self, perm: Sequence[int]) -> None:
        super().__init__()
        self.perm = perm

    def compute(self, x: Any) -> Any:
        """Returns the permuted tensor."""
        return x.permute(*self.perm)


class Squeeze(Operator):
    """A tensor without a dimension of size 1."""

    def __init__(self, dimension: Any) -> None:
        super().__init__()
        self.dimension = dimension

    def compute(self, x: Any) -> Any:
        """Returns the tensor with a dimension less."""
        return x.squeeze(*_integers(self.dimension))


class Unsqueeze(Squeeze):
    """A tensor with one more dimension, of size 1."""

    def compute(self, x: Any, dimension: Any = None) -> Any:
        """Returns the tensor with a dimension more."""
        return x.unsqueeze(*_integers(self.dimension if dimension is None else dimension))


class Expand(Operator):
    """A tensor repeated along dimensions of size 1."""

    def compute(self, x: Any, shape: Any) -> Any:
        """Returns the tensor; as in ONNX, a size 1 keeps the tensor's own."""
        return x.expand(torch.broadcast_shapes(tuple(x.shape), _integers(shape)))


class Cast(Operator):
    """A plain tensor in another dtype; a secret stays as it is."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.dtype = dtype

    def forward(self, x: Any) -> Any:
        """Returns the tensor."""
        return x.to(dtype=self.dtype) if isinstance(x, Tensor) else x


class Flatten(Operator):
    """A matrix: the dimensions before `axis`, and those from it on, as one each."""

    def __init__(self, axis: int = 1) -> None:
        super().__init__()
        self.axis = axis

    def compute(self, x: Any) -> Any:
        """Returns the matrix."""
        return x.reshape(math.prod(x.shape[: self.axis]), -1)


class Reshape(Operator):
    """A tensor in another shape, given here or as an input."""

    def __init__(self, shape: Any = None) -> None:
        super().__init__()
        self.shape = shape

    def compute(self, x: Any, shape: Any = None) -> Any:
        """Returns the reshaped tensor."""
        return x.reshape(_integers(self.shape if shape is None else shape))


def _integers(sizes: Any) -> tuple[int, ...]:
    """Returns public integers, given as one, as a tensor or as a sequence."""
    if isinstance(sizes, Tensor):
        sizes = sizes.tolist()
    return tuple(int(one) for one in sizes) if isinstance(sizes, Sequence) else (int(sizes),)
