"""Convolutions of values and their gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..protocols import Bilinear, Conv, ConvGradInput, ConvGradWeight
from ..ring import Window
from .linear import bilinear, bilinears
from .value import Operand, Value

if TYPE_CHECKING:
    from .numbers import Numbers


def conv(n: Numbers, x: Operand, weight: Operand, window: Window) -> Value:
    """The convolution. 1 round, none with a public operand; its division is pending."""
    return bilinear(n, Conv(window), x, weight)


def conv_transpose(
    n: Numbers, x: Operand, weight: Operand, window: Window, shape: Sequence[int]
) -> Value:
    """The transposed convolution, of this shape: the gradient of a convolution by its input."""
    return bilinear(n, ConvGradInput(window, tuple(shape)), weight, x)


def conv_grads(
    n: Numbers,
    grad: Operand,
    x: Operand,
    weight: Operand,
    window: Window,
    *,
    transposed: bool = False,
    wanted: Sequence[bool] = (True, True),
) -> list[Value | None]:
    """The gradients by input and weight, those that are wanted, in one round."""
    shape = tuple(weight.shape)  # type: ignore[union-attr]
    by_input: tuple[Bilinear, Operand, Operand]
    if transposed:
        by_input = (Conv(window), grad, weight)
        by_weight = (ConvGradWeight(window, shape), grad, x)
    else:
        sizes = tuple(x.shape)  # type: ignore[union-attr]
        by_input = (ConvGradInput(window, sizes), weight, grad)
        by_weight = (ConvGradWeight(window, shape), x, grad)
    calls = [call for call, want in zip((by_input, by_weight), wanted, strict=True) if want]
    made = iter(bilinears(n, calls))
    return [next(made) if want else None for want in wanted]
