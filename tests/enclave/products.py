"""Operations with operands for tests: every kind of outsourced product, and shapes drawn for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from hypothesis import assume
from hypothesis import strategies as st
from torch import Tensor

from tacit.errors import ConfigError
from tacit.protocols.products.bilinear import (
    MATMUL,
    Bilinear,
    Conv,
    ConvGradInput,
    ConvGradWeight,
)
from tacit.ring import Window

Shape = tuple[int, ...]
Case = tuple[Bilinear, Shape, Shape]

WINDOW = Window.make(2, 2, 1, 1, 2)
_IMAGE, _WEIGHT = (3, 4, 7, 6), (6, 2, 3, 3)
_OUTPUT = WINDOW.output_shape(_IMAGE, _WEIGHT)
CASES: dict[str, Case] = {
    "matmul": (MATMUL, (5, 7), (7, 3)),
    "batched matmul": (MATMUL, (2, 5, 7), (2, 7, 3)),
    "one right matrix": (MATMUL, (2, 5, 7), (7, 3)),
    "conv": (Conv(WINDOW), _IMAGE, _WEIGHT),
    "conv_grad_input": (ConvGradInput(WINDOW, _IMAGE), _WEIGHT, _OUTPUT),
    "conv_grad_weight": (ConvGradWeight(WINDOW, _WEIGHT), _IMAGE, _OUTPUT),
}


@st.composite
def cases(draw: Callable[..., Any]) -> Case:
    """Draws an operation with any window, or a product of matrices with any batches."""
    kind = draw(st.sampled_from([MATMUL, Conv, ConvGradInput, ConvGradWeight]))
    if kind is MATMUL:
        m, k, n = (draw(st.integers(1, 6)) for _ in range(3))
        batch = draw(st.lists(st.integers(1, 3), max_size=2))
        left, right = (batch if draw(st.booleans()) else [] for _ in range(2))
        return MATMUL, (*left, m, k), (*right, k, n)
    dims, groups = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    sizes = st.lists(st.integers(1, 3), min_size=dims, max_size=dims)
    window = Window.make(dims, draw(sizes), [n - 1 for n in draw(sizes)], draw(sizes), groups)
    image = (
        draw(st.integers(1, 3)),
        groups * draw(st.integers(1, 2)),
        *(n + 2 for n in draw(sizes)),
    )
    weight = (groups * draw(st.integers(1, 3)), image[1] // groups, *draw(sizes))
    try:
        output = window.output_shape(image, weight)
    except ConfigError:
        assume(False)
    if kind is Conv:
        return Conv(window), image, weight
    if kind is ConvGradInput:
        return ConvGradInput(window, image), weight, output
    return ConvGradWeight(window, weight), image, output


def integers(shape: Shape, bits: int, seed: int) -> Tensor:
    """Returns integers of so many bits as float64, which quantising does not change.

    The first one is large, so that the largest has the highest bit; the others include the ends.
    """
    generator = torch.Generator().manual_seed(seed)
    most = (1 << (bits - 1)) - 1
    drawn = torch.randint(-most, most + 1, shape, generator=generator).double()
    drawn.view(-1)[0] = most
    return drawn
