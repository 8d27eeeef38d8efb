"""Bilinear operations on ring tensors: what every protocol multiplies secrets with.

`op(a, b)` is the operation. `op.sum([(a, b), ...])` is a sum of such products; where the operation
has an inner dimension, the operands are concatenated along it and multiplied once, so that the
result is put together once. That pays if the result is large; if the weight is large (a dense layer
for one image), copying it costs more. `op.plan`, `op.prepare` and `op.prepared_sum` are for right
operands that are used many times (`cache.py`): they are concatenated and encoded once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor

from ... import kernels
from ...errors import ConfigError
from ...kernels import Plan, Prepared
from ...kernels.conv import conv_grad_input, conv_grad_weight, conv_window
from ...ring import Window

Pair = tuple[Tensor, Tensor]
# A left operand, and the parts whose sum is the right operand.
Term = tuple[Tensor, Sequence[Tensor]]


LARGE = 8  # times as many elements as a result: from there on the right operand is large


class Bilinear(ABC):
    """An operation that is linear in each of its two operands."""

    @abstractmethod
    def __call__(self, a: Tensor, b: Tensor) -> Tensor:
        """Returns the result in the ring."""

    @abstractmethod
    def terms(self, a: Sequence[int], b: Sequence[int]) -> int:
        """Returns how many products one output adds up at most, for operands of these shapes."""

    @abstractmethod
    def shape(self, a: Sequence[int], b: Sequence[int]) -> tuple[int, ...]:
        """Returns the shape of the result, for operands of these shapes."""

    def stacks(self, a: Sequence[int], b: Sequence[int]) -> bool:
        """Whether one product of two left operands, one below the other, pays.

        It does if the right operand is much larger than the result: then reading it takes most of
        the time.
        """
        return False

    def sum(self, pairs: Sequence[Pair]) -> Tensor:
        """Returns the sum of the operation over pairs of operands of equal shapes."""
        (a, b), *others = pairs
        total = self(a, b)
        for a, b in others:
            total += self(a, b)
        return total

    def plan(self, left: Sequence[Tensor], right: Tensor) -> Plan | None:
        """Returns how to encode right operands like this one; None if that never pays."""
        return None

    def prepare(self, right: Sequence[Tensor], plan: Plan) -> Prepared:
        """Returns right operands, concatenated and encoded, for `prepared_sum`."""
        raise NotImplementedError

    def prepared_sum(self, left: Sequence[Tensor], right: Prepared) -> Tensor:
        """Returns `sum` with right operands that were encoded together."""
        raise NotImplementedError


@dataclass(frozen=True)
class Mul(Bilinear):
    """The elementwise product, with broadcasting."""

    def __call__(self, a: Tensor, b: Tensor) -> Tensor:
        return kernels.mul(a, b)

    def terms(self, a: Sequence[int], b: Sequence[int]) -> int:
        return 1

    def shape(self, a: Sequence[int], b: Sequence[int]) -> tuple[int, ...]:
        return tuple(torch.broadcast_shapes(tuple(a), tuple(b)))

    def sum(self, pairs: Sequence[Pair]) -> Tensor:
        (a, b), *others = pairs
        total = self(a, b)
        for a, b in others:
            total = kernels.mul_add(a, b, total)
        return total


@dataclass(frozen=True)
class MatMul(Bilinear):
    """The product of matrices or batches of matrices, as `torch.matmul`."""

    def __call__(self, a: Tensor, b: Tensor) -> Tensor:
        return kernels.matmul(a, b)

    def terms(self, a: Sequence[int], b: Sequence[int]) -> int:
        return a[-1]

    def shape(self, a: Sequence[int], b: Sequence[int]) -> tuple[int, ...]:
        left, right = (torch.empty(tuple(shape), device="meta") for shape in (a, b))
        return tuple((left @ right).shape)

    def stacks(self, a: Sequence[int], b: Sequence[int]) -> bool:
        return len(a) > 1 and len(b) == 2 and prod(a[:-1]) * LARGE <= b[0]

    def sum(self, pairs: Sequence[Pair]) -> Tensor:
        left, right = zip(*pairs, strict=True)
        tall = right[0].dim() == 2 and left[0].shape[:-1].numel() * 2 >= right[0].shape[0]
        if not tall and right[0].dim() <= 2:
            return super().sum(pairs)
        return self(torch.cat(left, -1), torch.cat(right, -2))

    def plan(self, left: Sequence[Tensor], right: Tensor) -> Plan | None:
        if right.dim() != 2 or not left[0].dim():
            return None
        rows = left[0].shape[:-1].numel()
        return kernels.plan_matmul(rows, (len(left) * right.shape[0], right.shape[1]), right)

    def prepare(self, right: Sequence[Tensor], plan: Plan) -> Prepared:
        return kernels.prepare_matmul(_joined(right, 0), plan)

    def prepared_sum(self, left: Sequence[Tensor], right: Prepared) -> Tensor:
        return kernels.matmul(_joined(left, -1), right)


@dataclass(frozen=True)
class Conv(Bilinear):
    """The convolution of an input and a weight."""

    window: Window

    def __call__(self, a: Tensor, b: Tensor) -> Tensor:
        return conv_window(a, b, self.window)

    def terms(self, a: Sequence[int], b: Sequence[int]) -> int:
        return prod(b[1:])

    def shape(self, a: Sequence[int], b: Sequence[int]) -> tuple[int, ...]:
        return self.window.output_shape(a, b)

    def stacks(self, a: Sequence[int], b: Sequence[int]) -> bool:
        return prod(self.shape(a, b)) * LARGE <= prod(b)

    def sum(self, pairs: Sequence[Pair]) -> Tensor:
        images, weights = zip(*pairs, strict=True)
        if _outputs(self.window, images[0], weights[0]) * 2 < weights[0].numel():
            return super().sum(pairs)
        groups = self.window.groups
        return self(_side_by_side(images, 1, groups), torch.cat(weights, 1))

    def plan(self, left: Sequence[Tensor], right: Tensor) -> Plan | None:
        def wide(shape: Sequence[int]) -> tuple[int, ...]:
            return (shape[0], len(left) * shape[1], *shape[2:])

        self.window.output_shape(left[0].shape, right.shape)  # raises for shapes that do not fit
        return kernels.plan_conv(wide(left[0].shape), wide(right.shape), self.window, right)

    def prepare(self, right: Sequence[Tensor], plan: Plan) -> Prepared:
        return kernels.prepare_conv(_joined(right, 1), self.window, plan)

    def prepared_sum(self, left: Sequence[Tensor], right: Prepared) -> Tensor:
        images = _side_by_side(left, 1, self.window.groups)
        return conv_window(images, right, self.window)


@dataclass(frozen=True)
class ConvGradInput(Bilinear):
    """The gradient of a convolution by its input, from the weight and the output's gradient."""

    window: Window
    input_shape: tuple[int, ...]

    def __call__(self, a: Tensor, b: Tensor) -> Tensor:
        dims = len(self.window.stride)
        return conv_grad_input(dims, self.input_shape, a, b, *_settings(self.window))

    def terms(self, a: Sequence[int], b: Sequence[int]) -> int:
        return a[0] // self.window.groups * prod(a[2:])

    def shape(self, a: Sequence[int], b: Sequence[int]) -> tuple[int, ...]:
        return self.input_shape

    def sum(self, pairs: Sequence[Pair]) -> Tensor:
        weights, grads = zip(*pairs, strict=True)
        if prod(self.input_shape) * 2 < weights[0].numel():
            return super().sum(pairs)
        groups = self.window.groups
        return self(_side_by_side(weights, 0, groups), _side_by_side(grads, 1, groups))


@dataclass(frozen=True)
class ConvGradWeight(Bilinear):
    """The gradient of a convolution by its weight, from the input and the output's gradient."""

    window: Window
    weight_shape: tuple[int, ...]

    def __call__(self, a: Tensor, b: Tensor) -> Tensor:
        dims = len(self.window.stride)
        return conv_grad_weight(dims, a, self.weight_shape, b, *_settings(self.window))

    def terms(self, a: Sequence[int], b: Sequence[int]) -> int:
        return b[0] * prod(b[2:])

    def shape(self, a: Sequence[int], b: Sequence[int]) -> tuple[int, ...]:
        return self.weight_shape

    def sum(self, pairs: Sequence[Pair]) -> Tensor:
        images, grads = zip(*pairs, strict=True)
        return self(torch.cat(images), torch.cat(grads))


class Einsum(Bilinear):
    """A contraction of two operands in the notation of `torch.einsum`, as batched products.

    An index may occur once in an operand; there is no ellipsis.
    """

    def __init__(self, equation: str) -> None:
        self.equation = equation = equation.replace(" ", "")
        operands, arrow, self.out = equation.partition("->")
        self.a, comma, self.b = operands.partition(",")
        names = (self.a, self.b, self.out)
        plain = all(name.isalpha() or not name for name in names)
        unique = all(len(set(name)) == len(name) for name in names)
        if not (arrow and comma and plain and unique and set(self.out) <= set(self.a + self.b)):
            raise ConfigError(
                f"einsum {equation!r}",
                limit="two operands, an arrow, and no index twice are needed",
            )
        both = [i for i in self.a if i in self.b]
        self._batch = [i for i in both if i in self.out]
        self._inner = [i for i in both if i not in self.out]
        self._rows = [i for i in self.a if i in self.out and i not in self.b]
        self._columns = [i for i in self.b if i in self.out and i not in self.a]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Einsum) and other.equation == self.equation

    def __hash__(self) -> int:
        return hash(self.equation)

    def matrices(self, a: Tensor, b: Tensor) -> Pair:
        """The operands as batches of matrices whose product is the contraction."""
        left = _arranged(a, self.a, (self._batch, self._rows, self._inner))
        return left, _arranged(b, self.b, (self._batch, self._inner, self._columns))

    def finish(self, product: Tensor, a: Sequence[int], b: Sequence[int]) -> Tensor:
        """Returns the contraction of operands of these shapes, from the product of matrices."""
        sizes = dict(zip(self.a + self.b, (*a, *b), strict=True))
        order = [*self._batch, *self._rows, *self._columns]
        spread = product.reshape([sizes[i] for i in order])
        return spread.permute([order.index(i) for i in self.out])

    def __call__(self, a: Tensor, b: Tensor) -> Tensor:
        return self.sum([(a, b)])

    def terms(self, a: Sequence[int], b: Sequence[int]) -> int:
        sizes = dict(zip(self.a + self.b, (*a, *b), strict=True))
        return prod(size for i, size in sizes.items() if i not in self.out)

    def shape(self, a: Sequence[int], b: Sequence[int]) -> tuple[int, ...]:
        sizes = dict(zip(self.a + self.b, (*a, *b), strict=True))
        return tuple(sizes[i] for i in self.out)

    def sum(self, pairs: Sequence[Pair]) -> Tensor:
        product = MatMul().sum([self.matrices(a, b) for a, b in pairs])
        a, b = pairs[0]
        return self.finish(product, a.shape, b.shape)


def sum_parts(parts: Sequence[Tensor]) -> Tensor:
    """Returns the sum of parts; a single part is returned as it is."""
    first, *others = parts
    return sum(others, first)


def _arranged(x: Tensor, names: str, blocks: Sequence[Sequence[str]]) -> Tensor:
    """x with the dimensions of each block joined; those in no block are summed."""
    lone = [i for i, name in enumerate(names) if not any(name in block for block in blocks)]
    if lone:
        x = x.sum(lone, dtype=x.dtype)
        names = "".join(name for i, name in enumerate(names) if i not in lone)
    order = [names.index(name) for block in blocks for name in block]
    sizes = [prod(x.shape[names.index(name)] for name in block) for block in blocks]
    return x.permute(order).reshape(sizes)


def _joined(tensors: Sequence[Tensor], dim: int) -> Tensor:
    return torch.cat(list(tensors), dim) if len(tensors) > 1 else tensors[0]


def _outputs(window: Window, image: Tensor, weight: Tensor) -> int:
    """The number of elements of a convolution's result."""
    return prod(window.output_shape(image.shape, weight.shape))


def _settings(window: Window) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], int]:
    return window.stride, window.padding, window.dilation, window.groups


def _side_by_side(tensors: Sequence[Tensor], dim: int, groups: int) -> Tensor:
    """The channels of several tensors, concatenated within each group."""
    if groups == 1 or len(tensors) == 1:
        return _joined(tensors, dim)
    split = [t.unflatten(dim, (groups, t.shape[dim] // groups)) for t in tensors]
    return torch.cat(split, dim + 1).flatten(dim, dim + 1)


MUL = Mul()
MATMUL = MatMul()
