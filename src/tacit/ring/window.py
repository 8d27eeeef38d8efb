"""How the kernel of a convolution moves over its input."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from ..errors import ConfigError

Sizes = int | Sequence[int]


class Window(NamedTuple):
    """Stride, padding and dilation along each spatial dimension, and the number of groups."""

    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int

    @classmethod
    def make(
        cls,
        dims: int,
        stride: Sizes = 1,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        groups: int = 1,
    ) -> Window:
        """Returns a window in `dims` dimensions; an integer stands for the same in all of them."""
        if groups < 1:
            raise ConfigError(f"groups={groups}", limit="at least 1 is needed")
        return cls(
            _along("stride", stride, dims, least=1),
            _along("padding", padding, dims, least=0),
            _along("dilation", dilation, dims, least=1),
            groups,
        )

    def output_sizes(self, sizes: Sequence[int], kernel: Sequence[int]) -> list[int]:
        """Returns the spatial sizes of the output for those of the input and the kernel."""
        out = [
            (n + 2 * p - d * (k - 1) - 1) // s + 1
            for n, k, s, p, d in zip(
                sizes, kernel, self.stride, self.padding, self.dilation, strict=True
            )
        ]
        if min(out) < 1:
            misfit = f"a kernel of {tuple(kernel)} does not fit an input of {tuple(sizes)}"
            raise ConfigError(f"{misfit} with {self}")
        return out

    def output_shape(self, x: Sequence[int], weight: Sequence[int]) -> tuple[int, ...]:
        """Returns the shape of the output for those of input and weight; raises unless they fit."""
        return _output_shape(self, tuple(x), tuple(weight))


def _along(name: str, value: Sizes, dims: int, *, least: int) -> tuple[int, ...]:
    values = (value,) * dims if isinstance(value, int) else tuple(value)
    if len(values) != dims or min(values) < least:
        limit = f"{dims} integers of at least {least} are needed"
        raise ConfigError(f"{name}={value}", limit=limit)
    return values


@lru_cache(maxsize=1024)
def _output_shape(window: Window, x: tuple[int, ...], weight: tuple[int, ...]) -> tuple[int, ...]:
    dims, groups = len(window.stride), window.groups
    problem = ""
    if len(x) != dims + 2 or len(weight) != dims + 2:
        problem = f"both need {dims + 2} dimensions"
    elif x[1] != weight[1] * groups or weight[0] % groups:
        problem = f"channels do not divide into {groups} groups"
    if problem:
        raise ConfigError(f"conv{dims}d of input {x} and weight {weight}", limit=problem)
    return (x[0], weight[0], *window.output_sizes(x[2:], weight[2:]))
