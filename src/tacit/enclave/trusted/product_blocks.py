"""Products cut into blocks, so that what a block takes inside an enclave fits into its memory.

An axis of a product is a dimension of two of its three tensors, or of all: the rows of a matrix
belong to the left operand and the result, an inner dimension to both operands. A product is cut
along its axes. Blocks along an axis of the result are independent of each other. The results of
blocks along an inner axis are added up, which is exact in the integers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, pairwise, product
from typing import NamedTuple

import torch
from torch import Tensor

from ...protocols.plain_memory import PlainMemory
from ...protocols.products.bilinear import (
    Bilinear,
    Conv,
    ConvGradInput,
    ConvGradWeight,
    MatMul,
)

LEFT, RIGHT, RESULT = range(3)  # the tensors of a product
OPENED = 8  # one part of so many of a limited memory is for chunks that a block reads and writes

Shape = tuple[int, ...]
Needed = Callable[[Bilinear, Shape, Shape], int]  # the bytes that a product of these shapes takes


class Axis(NamedTuple):
    """The dimension that an axis is of each tensor; None where a tensor does not have it."""

    left: int | None
    right: int | None
    result: int | None


class Range(NamedTuple):
    """Some elements of an axis."""

    axis: Axis
    start: int
    length: int


class Block(NamedTuple):
    """A product of parts of both operands: a part of the result, or a summand of one."""

    op: Bilinear
    ranges: tuple[Range, ...]

    def part(self, tensor: int, x: Tensor) -> Tensor:
        """Returns a view of the block's part of a tensor."""
        for axis, start, length in self.place(tensor):
            dim = axis[tensor]
            assert dim is not None
            x = x.narrow(dim, start, length)
        return x

    def place(self, tensor: int) -> tuple[Range, ...]:
        """Returns where in a tensor the block's part of it is."""
        return tuple(one for one in self.ranges if one.axis[tensor] is not None)


class Cut:
    """A product as blocks, which are as large as possible at first."""

    def __init__(self, op: Bilinear, a: Sequence[int], b: Sequence[int]) -> None:
        self._op, self._shapes = op, (tuple(a), tuple(b), tuple(op.shape(a, b)))
        self._axes = _axes(op, *self._shapes)
        self._sizes = [self._size(axis) for axis in self._axes]
        self._lengths = list(self._sizes)  # of a block, along each axis
        self._following: dict[Block, Block] | None = None

    def fit(self, needed: Needed, room: int) -> int:
        """Cuts until a block takes at most so many bytes; returns what one takes.

        It is more than that if the smallest block does not fit. In each step the axis is halved
        that saves most. The result depends on shapes alone.
        """
        while (least := self._needed(needed, self._lengths)) > room:
            smaller = [self._halved(i) for i, length in enumerate(self._lengths) if length > 1]
            if not smaller:
                break
            self._lengths = min(smaller, key=lambda lengths: self._needed(needed, lengths))
        return least

    def computed(
        self,
        memory: PlainMemory,
        name: str,
        needed: Needed,
        dtype: torch.dtype,
        compute: Callable[[list[Block]], Tensor],
        end: Callable[[], None] = lambda: None,
    ) -> Tensor:
        """Returns the product in a memory, in blocks that fit into it; one if it has no limit.

        `compute` returns the sum of some blocks, a part of the result of this dtype; `end` gives up
        what it has kept.
        """
        size = (
            0 if memory.limit is None else self.fit(needed, memory.limit - memory.limit // OPENED)
        )
        parts = list(self.blocks())
        with memory.working(name, size):
            if len(parts) == 1:
                made = compute(parts[0])
            else:
                made = memory.new(name, self._shapes[RESULT], dtype)
                for blocks in parts:
                    memory.write(name, blocks[0].part(RESULT, made), compute(blocks))
            end()
        memory.adopt(made, name)
        return made

    def following(self, block: Block) -> Block | None:
        """Returns the block that is computed after this one; None after the last."""
        if self._following is None:
            self._following = dict(pairwise(chain.from_iterable(self.blocks())))
        return self._following.get(block)

    def blocks(self) -> Iterator[list[Block]]:
        """Returns the blocks of each part of the result: their sum is that part."""
        ranges = [self._ranges(i) for i in range(len(self._axes))]
        outer = [of for of, axis in zip(ranges, self._axes, strict=True) if axis.result is not None]
        inner = [of for of, axis in zip(ranges, self._axes, strict=True) if axis.result is None]
        for where in product(*outer):
            op = self._resized({one.axis: one.length for one in where})
            yield [Block(op, (*where, *along)) for along in product(*inner)]

    def _ranges(self, i: int) -> list[Range]:
        size, step = self._sizes[i], self._lengths[i]
        starts = range(0, size, step)
        return [Range(self._axes[i], start, min(step, size - start)) for start in starts]

    def _size(self, axis: Axis) -> int:
        return next(self._shapes[i][dim] for i, dim in enumerate(axis) if dim is not None)

    def _halved(self, i: int) -> list[int]:
        return [-(-length // 2) if i == j else length for j, length in enumerate(self._lengths)]

    def _needed(self, needed: Needed, lengths: Sequence[int]) -> int:
        chosen = dict(zip(self._axes, lengths, strict=True))
        op, (a, b) = self._resized(chosen), (self._shape(i, chosen) for i in (LEFT, RIGHT))
        return needed(op, a, b)

    def _resized(self, lengths: dict[Axis, int]) -> Bilinear:
        """Returns the operation whose result has these lengths."""
        shape = self._shape(RESULT, lengths)
        if isinstance(self._op, ConvGradInput):
            return replace(self._op, input_shape=shape)
        if isinstance(self._op, ConvGradWeight):
            return replace(self._op, weight_shape=shape)
        return self._op

    def _shape(self, tensor: int, lengths: dict[Axis, int]) -> Shape:
        shape = list(self._shapes[tensor])
        for axis, length in lengths.items():
            if (dim := axis[tensor]) is not None:
                shape[dim] = length
        return tuple(shape)


def _axes(op: Bilinear, a: Shape, b: Shape, c: Shape) -> list[Axis]:
    """Returns the axes along which a product can be cut: images, or rows, first."""
    if isinstance(op, MatMul):
        found = [Axis(-2, None, -2), Axis(None, -1, -1), Axis(-1, -2, None)]
        if len(c) == 2:
            return found
        left, right = (0 if len(x) == len(c) and x[0] == c[0] else None for x in (a, b))
        return [Axis(left, right, 0), *found]
    if isinstance(op, Conv):
        images, *channels = Axis(0, None, 0), Axis(None, 0, 1)
    elif isinstance(op, ConvGradInput):
        images, *channels = Axis(None, 0, 0), Axis(1, None, 1)
    else:
        assert isinstance(op, ConvGradWeight)
        images, *channels = Axis(0, 0, None), Axis(1, None, 1), Axis(None, 1, 0)
    return [images, *channels] if op.window.groups == 1 else [images]
