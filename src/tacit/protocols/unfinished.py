"""Values of an enclave that wait for what follows them, to be computed in one pass with it.

A product of integers is not read as floats at once: a bias and ReLU may follow, and each of them
alone would read and write all numbers once more. The gradient of max-pooling waits for that of
ReLU, which is less work before it. Whoever reads such a value otherwise gets it as it is. The
results are those of torch's operations one after the other, bit by bit (`kernels.activations`).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ..kernels.activations import Bias, Integers, Pooled, finish_product, max_pool2x2_backward
from .plain_memory import UNLIMITED
from .share import Parts, Plain


class Unfinished(Plain):
    """Values that are computed when they are read first, or by an operation that follows."""

    def __init__(self, shape: torch.Size, compute: Callable[[], Tensor]) -> None:
        self.shape, self.memory = shape, UNLIMITED
        self._compute: Callable[[], Tensor] | None = compute

    @property
    def is_finished(self) -> bool:
        return self._compute is None

    @property
    def parts(self) -> Parts:  # type: ignore[override]
        if self._compute is not None:
            self.finish(self._compute())
        return self._parts

    def finish(self, tensor: Tensor) -> None:
        """Takes over the values, and gives up what they were computed of."""
        self._parts, self._compute = {self.VALUE: tensor}, None


class UnfinishedProduct(Unfinished):
    """Floats of a product of integers, plus a bias, and their ReLU if that follows."""

    def __init__(self, product: Integers, bias: Bias | None = None, *, relu: bool = False) -> None:
        x, exponent = product
        super().__init__(x.shape, lambda: finish_product(x, exponent, bias, relu=relu))
        self._product: Integers | None = product
        self._bias, self._relu = bias, relu

    def with_bias(self, bias: Tensor) -> UnfinishedProduct | None:
        """Returns the sum with a tensor; None if that is not a bias along one dimension."""
        dim = len(self.shape) - bias.dim()
        is_bias = 0 <= dim < len(self.shape) and bias.numel() == bias.shape[0] == self.shape[dim]
        if not self._product or self._bias or self._relu or not is_bias:
            return None
        if bias.dtype != torch.float32:
            return None
        return UnfinishedProduct(self._product, Bias(bias.reshape(-1), dim))

    def with_relu(self) -> UnfinishedProduct | None:
        """Returns the ReLU of the values; None if they are computed already."""
        return self._product and UnfinishedProduct(self._product, self._bias, relu=True)

    def finish(self, tensor: Tensor) -> None:
        super().finish(tensor)
        self._product = self._bias = None


class Places(Plain):
    """The places of the largest numbers of 2 x 2 windows, together with these numbers."""

    def __init__(self, pooled: Pooled) -> None:
        super().__init__(pooled.places)
        self.largest = pooled.values


class UnfinishedGradient(Unfinished):
    """The gradient by the input x of 2 x 2 max-pooling, from that of its windows."""

    def __init__(self, grad: Tensor, x: Tensor, places: Places) -> None:
        super().__init__(x.shape, lambda: max_pool2x2_backward(grad, x, places.tensor))
        self._windows: tuple[Tensor, Tensor, Places] | None = grad, x, places

    def through_relu(self, result: Tensor) -> Tensor | None:
        """Returns the gradient by the input of ReLU, if the windows are those of its result."""
        if self._windows is None or result is not self._windows[1]:
            return None
        grad, x, places = self._windows
        return max_pool2x2_backward(grad, x, places.tensor, places.largest)

    def finish(self, tensor: Tensor) -> None:
        super().finish(tensor)
        self._windows = None
