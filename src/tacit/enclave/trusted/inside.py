"""Products of floats that an enclave computes itself, in blocks if its memory is limited.

A kernel of torch may choose another order of additions for another block, and blocks along an inner
axis are added up: results may differ in their last bits from those without a limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import torch
from torch import Tensor

from ...protocols.plain_memory import PlainMemory
from ...protocols.plain_pieces import by_rows, has_rows
from ...protocols.products.bilinear import (
    Bilinear,
    Conv,
    ConvGradInput,
    ConvGradWeight,
    MatMul,
)
from ...protocols.products.floats import in_floats
from .product_blocks import LEFT, RIGHT, Block, Cut
from .quantise import dequantise

LANES = 16  # channels that a kernel computes at a time


def multiply_inside(memory: PlainMemory, op: Bilinear, a: Tensor, b: Tensor) -> Tensor:
    """Returns op(a, b) of floats."""
    if memory.limit is None:
        return in_floats(op, a, b)
    name, width = type(op).__name__, a.dtype.itemsize

    def needed(op: Bilinear, a: Sequence[int], b: Sequence[int]) -> int:
        elements = prod(a) + prod(b) + 2 * prod(op.shape(a, b))  # a sum, and what is added to it
        return width * (elements + _scratch_elements(op, a, b))

    def summed(blocks: Sequence[Block]) -> Tensor:
        total = None
        for block in blocks:
            left, right = (
                memory.read(name, block.part(side, x)) for side, x in ((LEFT, a), (RIGHT, b))
            )
            found = in_floats(block.op, left, right)
            total = found if total is None else total.add_(found)
        assert total is not None
        return total

    return Cut(op, a.shape, b.shape).computed(memory, name, needed, a.dtype, summed)


def multiply_integers(
    memory: PlainMemory, op: Bilinear, a: Tensor, b: Tensor, exponent: int, dtype: torch.dtype
) -> Tensor:
    """Returns op(a, b) 2^exponent of integers, which are multiplied as floats."""
    name = type(op).__name__
    floats = (by_rows(memory, has_rows(x.shape), name, Tensor.to, x, dtype) for x in (a, b))
    product = multiply_inside(memory, op, *floats)
    made: Tensor = by_rows(
        memory, has_rows(product.shape), name, dequantise, product, exponent, dtype
    )
    return made


def _scratch_elements(op: Bilinear, a: Sequence[int], b: Sequence[int]) -> int:
    """Returns a bound on the elements of memory that a kernel of torch takes for a while.

    These are copies of operands and result in other layouts. For convolutions also images whose
    channels are filled up to LANES, and all windows.
    """
    result = op.shape(a, b)
    found = prod(a) + prod(b) + prod(result)
    if isinstance(op, MatMul):
        return found
    assert isinstance(op, Conv | ConvGradInput | ConvGradWeight)
    image, output, kernel = {
        Conv: (a, result, b),
        ConvGradInput: (result, b, a),
        ConvGradWeight: (a, b, result),
    }[type(op)]
    filled = sum(prod(x) // x[1] * (-x[1] % LANES) for x in (image, output))
    return found + filled + prod(image) * prod(kernel[2:]) + prod(output)
