"""Interpolation of images, by public weights along each dimension."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from ....fixedpoint import Numbers, Value
from ...table import implements

aten = torch.ops.aten

Sizes = Sequence[int]
Weights = Callable[[int, int, float | None], Tensor]


def _register(name: str, dims: int, weights: Callable[..., Weights], *, corners: bool) -> None:
    """Registers an interpolation and its gradient; `weights` gives a dimension's (out, in) matrix.

    `corners`: the operation has the argument align_corners.
    """

    def forward(n: Numbers, self: Value, output_size: Sizes, *settings: Any) -> Value:
        along, scales = (weights(settings[0]), settings[1:]) if corners else (weights(), settings)
        x = self
        for i, (size, scale) in enumerate(_per_dim(dims, output_size, scales)):
            dim = i - dims
            x = _times(n, x, along(x.shape[dim], size, scale), dim)
        return x

    def backward(
        n: Numbers, grad_output: Value, output_size: Sizes, input_size: Sizes, *settings: Any
    ) -> Value:
        along, scales = (weights(settings[0]), settings[1:]) if corners else (weights(), settings)
        x, sizes = n.operand(grad_output), input_size[-dims:]
        for i, (size, scale) in enumerate(_per_dim(dims, output_size, scales)):
            x = _times(n, x, along(sizes[i], size, scale).T, i - dims)
        return x

    forward.__name__, backward.__name__ = name, f"{name}_backward"
    implements(getattr(aten, name).default)(forward)
    implements(getattr(aten, f"{name}_backward").default)(backward)


def _per_dim(dims: int, sizes: Sizes, scales: Sequence[float | None]) -> list[tuple[int, Any]]:
    given = [*scales, *[None] * (dims - len(scales))]
    return list(zip(sizes, given, strict=True))


def _times(n: Numbers, x: Value, matrix: Tensor, dim: int) -> Value:
    """x times a public matrix along a dimension. Local."""
    if not matrix.is_floating_point() and bool((matrix.sum(1) == 1).all()):
        places = matrix.argmax(1)  # each element is a copy of one
        return x.map(lambda part: part.index_select(dim, places.to(part.device)))
    rows = x.map(lambda part: part.transpose(dim, -1))
    made = n.convert(n.matmul(rows, matrix.T), x.dtype)
    return made.map(lambda part: part.transpose(dim, -1))


def _nearest(operation: Any) -> Callable[[], Weights]:
    def weights(size: int, out: int, scale: float | None) -> Tensor:
        # torch chooses the places, with its own rounding
        return operation(torch.eye(size).unsqueeze(0), [out], scale)[0].T.to(torch.int64)

    return lambda: weights


def _linear(align_corners: bool) -> Weights:
    def weights(size: int, out: int, scale: float | None) -> Tensor:
        unit = torch.eye(size, dtype=torch.float64).unsqueeze(0)
        return aten.upsample_linear1d(unit, [out], align_corners, scale)[0].T

    return weights


def _cubic(align_corners: bool) -> Weights:
    def weights(size: int, out: int, scale: float | None) -> Tensor:
        unit = torch.eye(size, dtype=torch.float64)[None, :, :, None]
        return aten.upsample_bicubic2d(unit, [out, 1], align_corners, scale, None)[0, :, :, 0].T

    return weights


for count in (1, 2, 3):
    nearest, exact = aten.upsample_nearest1d, aten._upsample_nearest_exact1d
    _register(f"upsample_nearest{count}d", count, _nearest(nearest), corners=False)
    _register(f"_upsample_nearest_exact{count}d", count, _nearest(exact), corners=False)
_register("upsample_linear1d", 1, _linear, corners=True)
_register("upsample_bilinear2d", 2, _linear, corners=True)
_register("upsample_trilinear3d", 3, _linear, corners=True)
_register("upsample_bicubic2d", 2, _cubic, corners=True)
