"""Modules for models of tables: columns that are scaled, and linear models.

A small factor has few bits in fixed point. So a factor is kept as a power of two times a number
from 1 to 2, both secret: columns are multiplied by the power first, and the rest is precise. All
numbers are doubles, whatever the dtype of the columns is.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .answers import answer, require_link

SMALLEST_POWER = 2.0**-14


def powers_of_two(factors: Tensor) -> Tensor:
    """Returns for each factor below 1 the power of two below it, and 1 for others."""
    return torch.exp2(factors.abs().log2().floor()).clamp(SMALLEST_POWER, 1.0)


class ScaledColumns(nn.Module):
    """Columns less a shift, times a factor, both secret: what scalers do. 2 rounds of `trio`."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.shift = nn.Buffer(torch.zeros(features, dtype=torch.float64))
        self.power = nn.Buffer(torch.ones(features, dtype=torch.float64))
        self.factor = nn.Buffer(torch.ones(features, dtype=torch.float64))

    @classmethod
    def of(cls, shift: Tensor, factor: Tensor) -> ScaledColumns:
        """Returns the module for (x - shift) * factor."""
        made = cls(shift.shape[0])
        made.shift, made.power = nn.Buffer(shift), nn.Buffer(powers_of_two(factor))
        made.factor = nn.Buffer(factor / made.power)
        return made

    def forward(self, x: Tensor) -> Tensor:
        return (x - self.shift) * self.power * self.factor

    def extra_repr(self) -> str:
        return f"{self.shift.shape[0]}"


class LinearModel(nn.Module):
    """x @ weight^T + bias through a link, with secret weights: (n, features) to an answer."""

    def __init__(self, features: int, outputs: int = 1, link: str = "identity") -> None:
        super().__init__()
        self.power = nn.Buffer(torch.ones(features, dtype=torch.float64))
        self.weight = nn.Buffer(torch.zeros(outputs, features, dtype=torch.float64))
        self.bias = nn.Buffer(torch.zeros(outputs, dtype=torch.float64))
        self.link = require_link(link, "LinearModel")

    @classmethod
    def of(cls, weight: Tensor, bias: Tensor, link: str) -> LinearModel:
        """Returns the module for a weight of shape (outputs, features) and a bias (outputs,)."""
        made = cls(weight.shape[1], weight.shape[0], link)
        made.power = nn.Buffer(powers_of_two(weight.abs().amax(0)))
        made.weight, made.bias = nn.Buffer(weight / made.power), nn.Buffer(bias)
        return made

    def forward(self, x: Tensor) -> Tensor:
        scores = nn.functional.linear(x * self.power, self.weight, self.bias)
        return answer(scores, self.link)

    def extra_repr(self) -> str:
        outputs, features = self.weight.shape
        return f"{features}, {outputs}, {self.link!r}"
