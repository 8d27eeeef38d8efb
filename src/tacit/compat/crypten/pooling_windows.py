"""The windows of a pooling, by the places of the image that they cover."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


def places_of_windows(image: Sequence[int], output: Sequence[int], *form: Any) -> Tensor:
    """Returns places in the flat image, of shape (*output, *kernel), and -1 for the border.

    form: kernel, stride, padding and dilation, each a number or a pair.
    """
    pairs = [(one, one) if isinstance(one, int) else tuple(one) for one in form]
    rows, columns = (
        _covered(image[axis], output[axis], *(pair[axis] for pair in pairs)) for axis in (0, 1)
    )
    down, across = rows[:, None, :, None], columns[None, :, None, :]
    return torch.where((down < 0) | (across < 0), -1, down * image[1] + across)


def _covered(size: int, count: int, kernel: int, stride: int, padding: int, step: int) -> Tensor:
    """Returns what each of `count` windows covers along an axis, and -1 for the border."""
    starts = torch.arange(count)[:, None] * stride - padding
    places = starts + torch.arange(kernel) * step
    return torch.where((places >= 0) & (places < size), places, -1)
