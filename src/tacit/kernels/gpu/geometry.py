"""The sizes of a convolution in a GPU's memory, where kernels read them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod

import torch
from torch import Tensor

from ...ring import Window


@dataclass(frozen=True)
class Geometry:
    """A convolution from images of size `source` to images of size `out`, or a transposed one.

    Sizes have three dimensions; `source_channels` and `out_channels` are those of one group.
    """

    images: int
    groups: int
    source_channels: int
    out_channels: int
    source: tuple[int, ...]
    out: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    is_transposed: bool = False

    @classmethod
    def make(
        cls, x: Sequence[int], weight: Sequence[int], out: Sequence[int], window: Window
    ) -> Geometry:
        """Returns the geometry for the shapes of the input, weight and output of a convolution."""
        return cls(
            x[0],
            window.groups,
            weight[1],
            weight[0] // window.groups,
            three(x[2:], 1),
            three(out[2:], 1),
            three(weight[2:], 1),
            three(window.stride, 1),
            three(window.padding, 0),
            three(window.dilation, 1),
        )

    def transposed(self) -> Geometry:
        """Returns the geometry of the gradient by the input, which reads the output's gradient."""
        return Geometry(
            self.images,
            self.groups,
            self.out_channels,
            self.source_channels,
            self.out,
            self.source,
            self.kernel,
            self.stride,
            self.padding,
            self.dilation,
            not self.is_transposed,
        )

    @property
    def taps(self) -> int:
        """How many positions the kernel has."""
        return prod(self.kernel)

    @property
    def positions(self) -> int:
        """How many outputs one channel of one image has."""
        return prod(self.out)

    @property
    def is_deep(self) -> bool:
        """Whether the first of the three dimensions matters."""
        return (self.source[0], self.out[0], self.kernel[0], self.padding[0]) != (1, 1, 1, 0)

    @property
    def is_strided(self) -> bool:
        """Whether any stride is not 1."""
        return self.stride != (1, 1, 1)

    def table(self, device: torch.device) -> Tensor:
        """Returns the numbers of the three dimensions in int32, made once for a device.

        At 0, 3, 6, ... are the sizes of result, source and kernel, stride, padding and dilation.
        """
        numbers = self.out + self.source + self.kernel + self.stride + self.padding + self.dilation
        return _table(numbers, device)


@lru_cache(maxsize=4096)
def _table(numbers: tuple[int, ...], device: torch.device) -> Tensor:
    return torch.tensor(numbers, dtype=torch.int32).to(device)


def three(values: Sequence[int], fill: int) -> tuple[int, ...]:
    """Returns the values of up to three dimensions as those of three; `fill` is for the others."""
    return (fill,) * (3 - len(values)) + tuple(values)
