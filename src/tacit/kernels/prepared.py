"""Right operands that are encoded once and multiplied with many times.

What encoding a weight costs exceeds what multiplying one picture with it does. `plan_matmul` and
`plan_conv` say which method pays and how many bytes it keeps, `prepare_matmul` and `prepare_conv`
make them, and `matmul` and `conv` take a `Prepared` in place of the operand, with the same results
bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..ring import Window


@dataclass(frozen=True)
class Plan:
    """The number of a compiled method, and how many bytes it keeps: none if it is plain."""

    method: int
    num_bytes: int


PLAIN = Plan(1, 0)


@dataclass(frozen=True)
class Prepared:
    """A right operand of shape `shape` as its method reads it; of a convolution, for a window."""

    shape: torch.Size
    dtype: torch.dtype
    plan: Plan
    data: Tensor  # the bytes, or the operand itself where the plan is plain
    window: Window | None = None

    @property
    def is_plain(self) -> bool:
        return self.plan.num_bytes == 0

    @property
    def num_bytes(self) -> int:
        return self.data.numel() * self.data.element_size()
