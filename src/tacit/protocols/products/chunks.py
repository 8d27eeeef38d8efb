"""Cuts a product of large operands into chunks that fit a memory limit.

A product of matrices is cut into blocks of columns, and each of them, like every other operation,
into blocks of rows or images. The results of row blocks are concatenated (or added, for the
gradient of a weight, which is a sum over images), then those of column blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from math import prod

import torch
from torch import Tensor

from .bilinear import Bilinear, Conv, ConvGradInput, ConvGradWeight, MatMul, Term

Chunk = tuple[Bilinear, Sequence[Term]]  # an operation, and the terms that it is summed over

# Bytes that an element of an operand or a result takes during a product: itself and its residues.
BYTES_PER_ELEMENT = 32
TILE_COLUMNS = 128  # of the fastest matrix product: column blocks are multiples of it
# Rows of a matrix product, or positions of a convolution, from which on reading the right operand
# again for every tile takes a small part of the time.
MIN_TILE_ROWS = 256
MOST_TILES = 8  # of a product: more of them hide little more of the sending, and each costs a call


def column_blocks(op: Bilinear, terms: Sequence[Term], limit: int) -> list[tuple[Chunk, int]]:
    """Returns the product as blocks of columns of the right matrix, each with its memory limit.

    A block gets half the limit, and `row_blocks` the same half for each of its rows. Operations
    other than a product with one matrix are one block with the whole limit.
    """
    (_, [b, *_]), *_ = terms
    if not isinstance(op, MatMul) or b.dim() != 2:
        return [((op, terms), limit)]
    columns = b.shape[1]
    size = limit // 2 * columns // max(b.numel() * BYTES_PER_ELEMENT * len(terms), 1)
    size = max(size // TILE_COLUMNS, 1) * TILE_COLUMNS
    if size >= columns:
        return [((op, terms), limit)]
    blocks: list[tuple[Chunk, int]] = []
    for start in range(0, columns, size):
        count = min(size, columns - start)
        narrow = [(a, [b.narrow(-1, start, count) for b in parts]) for a, parts in terms]
        blocks.append(((op, narrow), limit // 2))
    return blocks


def join_columns(results: Sequence[Tensor]) -> Tensor:
    """Returns the product, from the results of its column blocks."""
    return torch.cat(list(results), -1) if len(results) > 1 else results[0]


def row_blocks(op: Bilinear, terms: Sequence[Term], limit: int) -> list[Chunk]:
    """Returns the product as blocks of rows or images that take about `limit` bytes each."""
    (a, [b, *_]), *_ = terms
    rows = _num_rows(op, a, b)
    if rows < 2:
        return [(op, terms)]
    work = _num_elements(op, a, b) * BYTES_PER_ELEMENT * len(terms)
    size = max(1, rows * limit // max(work, 1))
    if size >= rows:
        return [(op, terms)]
    starts = range(0, rows, size)
    return [_row_block(op, terms, start, min(size, rows - start)) for start in starts]


def tiles(op: Bilinear, terms: Sequence[Term], num_bytes: int) -> list[Chunk]:
    """Returns the product as blocks of rows or images whose results, concatenated, are its own.

    They have at least `num_bytes` bytes and MIN_TILE_ROWS rows each, and there are at most
    MOST_TILES.
    """
    (a, [b, *_]), *_ = terms
    rows = 1 if isinstance(op, ConvGradWeight) else _num_rows(op, a, b)
    if rows < 2:
        return [(op, terms)]
    shape = op.shape(a.shape, b.shape)
    channels = shape[-1] if isinstance(op, MatMul) else shape[1]
    smallest = max(num_bytes // a.itemsize, MIN_TILE_ROWS * channels)
    count = max(min(prod(shape) // smallest, rows, MOST_TILES), 1)
    bounds = [rows * i // count for i in range(count + 1)]
    return [_row_block(op, terms, start, end - start) for start, end in pairwise(bounds)]


def join_rows(op: Bilinear, results: Sequence[Tensor]) -> Tensor:
    """Returns the product, from the results of its row blocks."""
    if len(results) == 1:
        return results[0]
    if isinstance(op, ConvGradWeight):
        return sum(results[1:], results[0])
    return torch.cat(list(results))


def _num_rows(op: Bilinear, a: Tensor, b: Tensor) -> int:
    """The number of rows or images that can be computed independently of each other."""
    if isinstance(op, Conv | ConvGradWeight):
        return a.shape[0]
    if isinstance(op, ConvGradInput):
        return b.shape[0]
    if isinstance(op, MatMul) and a.dim() > 1 and b.dim() == 2:
        return a.shape[0]
    return 1


def _num_elements(op: Bilinear, a: Tensor, b: Tensor) -> int:
    """The number of elements of everything that is cut: operands with rows, and the result."""
    if isinstance(op, Conv):
        return a.numel() + prod(op.window.output_shape(a.shape, b.shape))
    if isinstance(op, ConvGradInput):
        return b.numel() + prod(op.input_shape)
    if isinstance(op, ConvGradWeight):
        return a.numel() + b.numel()
    return a.numel() + a.shape[:-1].numel() * b.shape[-1]


def _row_block(op: Bilinear, terms: Sequence[Term], start: int, size: int) -> Chunk:
    if isinstance(op, ConvGradInput):
        smaller = replace(op, input_shape=(size, *op.input_shape[1:]))
        return smaller, [(a, [b.narrow(0, start, size) for b in parts]) for a, parts in terms]
    if isinstance(op, ConvGradWeight):
        return op, [
            (a.narrow(0, start, size), [b.narrow(0, start, size) for b in parts])
            for a, parts in terms
        ]
    return op, [(a.narrow(0, start, size), parts) for a, parts in terms]
