"""Executes products: cuts them into chunks, takes operands from the cache, calls the kernel.

The left operand of a term is a tensor; the right operand is given as the parts whose sum it is,
because the cache recognises parts that it has seen before.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ...kernels import Prepared
from ...transport import CPU, to_host
from .bilinear import MUL, Bilinear, Term
from .cache import OperandCache, default_budget
from .chunks import column_blocks, join_columns, join_rows, row_blocks


class ProductExecutor:
    """Computes the products of one party.

    memory_limit: the bytes that one product may take beyond its operands and its result, or None.
    offload: a GPU that multiplies operands that lie on the CPU, or None to multiply where they lie.
    """

    def __init__(
        self,
        device: torch.device = CPU,
        *,
        memory_limit: int | None = None,
        offload: torch.device | None = None,
        budget: int | None = None,
    ) -> None:
        assert offload is None or device == CPU, "products of shares on a GPU stay on that GPU"
        self.memory_limit, self.offload = memory_limit, offload
        self.cache = OperandCache(default_budget(offload or device) if budget is None else budget)

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
        operands = self.cache.get(op, left, right)
        if isinstance(operands, Prepared):
            return op.prepared_sum(left, operands)
        return op.sum(list(zip(left, operands, strict=True)))
