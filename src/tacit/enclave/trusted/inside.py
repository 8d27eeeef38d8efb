"""Products of floats that an enclave computes itself, in pieces if its memory is limited.

Rows of a batch are independent, except in the gradient of a weight, which adds up their parts. A
kernel of torch may choose another order of additions for another number of rows.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import prod

import torch
from torch import Tensor

from ...protocols.plain_memory import PlainMemory
from ...protocols.plain_pieces import by_rows, has_rows, summed
from ...protocols.products.bilinear import (
    Bilinear,
    Conv,
    ConvGradInput,
    ConvGradWeight,
    MatMul,
)
from ...protocols.products.floats import in_floats
from .quantise import dequantise

LANES = 16  # channels that a kernel computes at a time


def multiply_inside(memory: PlainMemory, op: Bilinear, a: Tensor, b: Tensor) -> Tensor:
    """Returns op(a, b) of floats."""
    apply = summed if isinstance(op, ConvGradWeight) else by_rows
    cut = [x for x, has_rows in zip((a, b), _with_rows(op, a, b), strict=True) if has_rows]
    product = partial(_product, op)
    made: Tensor = apply(
        memory, lambda x: any(x is one for one in cut), type(op).__name__, product, a, b
    )
    return made


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


def _with_rows(op: Bilinear, a: Tensor, b: Tensor) -> tuple[bool, bool]:
    """Whether the left operand has the rows that are cut, and whether the right one has."""
    if isinstance(op, MatMul):
        return a.dim() >= b.dim(), b.dim() == a.dim() > 2 and a.shape[0] == b.shape[0] > 1
    return isinstance(op, Conv | ConvGradWeight), isinstance(op, ConvGradInput | ConvGradWeight)


def _product(op: Bilinear, a: Tensor, b: Tensor) -> Tensor:
    if isinstance(op, ConvGradInput):
        op = replace(op, input_shape=(b.shape[0], *op.input_shape[1:]))
    made = in_floats(op, a, b)
    if a.is_meta:
        _note_scratch(op, a, b, made)
    return made


def _note_scratch(op: Bilinear, a: Tensor, b: Tensor, made: Tensor) -> None:
    """Allocates, on the meta device, what kernels of torch may take besides.

    Operands in other layouts, if they are not scattered: copies of those are counted already. For
    convolutions also images whose channels are filled up to LANES, and all windows.
    """
    for x in (a, b, made):
        if x.is_contiguous():
            torch.empty_like(x)
    if isinstance(op, Conv | ConvGradInput | ConvGradWeight):
        images = {Conv: (a, made), ConvGradInput: (made, b), ConvGradWeight: (a, b)}[type(op)]
        kernel = {Conv: b, ConvGradInput: a, ConvGradWeight: made}[type(op)]
        filled = sum(x.nbytes // x.shape[1] * (-x.shape[1] % LANES) for x in images)
        windows = images[0].nbytes * prod(kernel.shape[2:])
        torch.empty(filled + windows + images[1].nbytes, dtype=torch.uint8, device="meta")
