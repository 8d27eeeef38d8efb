"""Executes products: cuts them into chunks, takes operands from the cache, calls the kernel.

The left operand of a term is a tensor; the right operand is given as the parts whose sum it is,
because the cache recognises parts that it has seen before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from ...kernels import Prepared
from ...transport import CPU, Sendable, to_host
from ...transport import tiles as sent_tiles
from ..randomness import CallRandomness
from .bilinear import MUL, Bilinear, Conv, MatMul, Term
from .cache import OperandCache, default_budget
from .chunks import Chunk, column_blocks, join_columns, join_rows, row_blocks, tiles
from .tiled import Masks, tiled_product


class ProductExecutor:
    """Computes the products of one party.

    memory_limit: the bytes that one product may take beyond its operands and its result, or None.
    offload: a GPU that multiplies operands that lie on the CPU, or None to multiply where they lie.
    in_tiles: whether `masked` returns large products that are computed while they are sent.
    members: how many executors of a session use the same memory.
    """

    def __init__(
        self,
        device: torch.device = CPU,
        *,
        memory_limit: int | None = None,
        offload: torch.device | None = None,
        budget: int | None = None,
        in_tiles: bool = False,
        members: int = 1,
    ) -> None:
        assert offload is None or device == CPU, "products of shares on a GPU stay on that GPU"
        self.memory_limit, self.offload, self.in_tiles = memory_limit, offload, in_tiles
        if budget is None:
            budget = default_budget(offload or device, members)
        self.cache = OperandCache(budget)

    def sum(self, op: Bilinear, terms: Sequence[Term]) -> Tensor:
        """Returns the sum of op(left, sum of parts) over the terms, whose shapes are all equal."""
        limit = self.memory_limit
        if limit is None:
            return self._chunk(op, terms)
        # On a CPU the right matrix is at most copied once, and its encoding serves all rows.
        cut_columns = terms[0][0].is_cuda or (self.offload is not None and op != MUL)
        blocks = column_blocks(op, terms, limit) if cut_columns else [((op, terms), limit)]
        results = []
        for block, budget in blocks:
            rows = [self._chunk(*chunk) for chunk in row_blocks(*block, budget)]
            results.append(join_rows(op, rows))
        return join_columns(results)

    def masked(
        self, op: Bilinear, terms: Sequence[Term], randomness: CallRandomness, masks: Masks
    ) -> Sendable:
        """Returns `sum` under masks, to be sent: in tiles, if it is large and this pays.

        The words of the masks are the same either way.
        """
        chunks = tiles(op, terms, sent_tiles.TILE_BYTES) if self.in_tiles else []
        if len(chunks) < 2:
            made = self.sum(op, terms)
            for source, how in masks:
                made = randomness.mask(source, made, how)
            return made
        (a, [b, *_]), *_ = terms
        shape = op.shape(a.shape, b.shape)
        return tiled_product(shape, a.dtype, self.each(chunks), randomness, masks)

    def each(self, chunks: Sequence[Chunk]) -> Iterator[Tensor]:
        """Yields the results of all tiles of one product, computed one by one.

        A right operand that they have in common is encoded once, as it is for the whole product.
        """
        operands: Prepared | list[Tensor] | None = None
        for op, terms in chunks:
            if self.memory_limit is not None or not isinstance(op, Conv | MatMul):
                yield self.sum(op, terms)
                continue
            left, right = zip(*terms, strict=True)
            if operands is None:
                operands = self.cache.get(op, left, right, reused=True)
            yield _multiplied(op, left, operands)

    def _chunk(self, op: Bilinear, terms: Sequence[Term]) -> Tensor:
        """Returns the sum of one chunk, on the device of its left operands."""
        left, right = zip(*terms, strict=True)
        if self.offload is None or op == MUL:  # elementwise products are not worth the transfer
            return self._product(op, left, right)
        moved = [a.to(self.offload, non_blocking=True) for a in left]
        return to_host(self._product(op, moved, right))

    def _product(
        self, op: Bilinear, left: Sequence[Tensor], right: Sequence[Sequence[Tensor]]
    ) -> Tensor:
        return _multiplied(op, left, self.cache.get(op, left, right))


def _multiplied(op: Bilinear, left: Sequence[Tensor], right: Prepared | Sequence[Tensor]) -> Tensor:
    if isinstance(right, Prepared):
        return op.prepared_sum(left, right)
    return op.sum(list(zip(left, right, strict=True)))
