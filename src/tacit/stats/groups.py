"""Sums by group, shown only for groups that are large enough."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ..errors import ConfigError
from ..tensor.row_shapes import require_one_a_row


class GroupSums(NamedTuple):
    """A sum and a count for each group: 0 for groups that are too small."""

    sums: Tensor
    counts: Tensor


def group_sums(values: Tensor, groups: Tensor, num_groups: int, *, min_size: int) -> GroupSums:
    """Returns the sum of `values` over the rows of each group, and how many rows it has.

    values: (n,) or (n, p). groups: (n,), numbers from 0 to num_groups - 1, public or secret; a row
    with another number counts nowhere. Sum and count of a group with less than `min_size` rows are
    0. Sums have to stay below 2^range_bits on secrets, 2^20 by default.

    What a reveal of the result tells besides: which groups are too small. Results of several calls
    on overlapping rows can be subtracted from each other, and a minimum size does not prevent that.

    >>> group_sums(torch.tensor([1.0, 2.0, 4.0]), torch.tensor([0, 1, 0]), 2, min_size=2)
    GroupSums(sums=tensor([5., 0.]), counts=tensor([2, 0]))
    """
    if min_size < 1:
        raise ConfigError(f"{min_size=}", limit="at least 1", subject="group_sums")
    require_one_a_row("group_sums", values if values.dim() == 1 else values[:, 0], groups=groups)
    member = groups.unsqueeze(-1) == torch.arange(num_groups, device=groups.device)
    counts = member.sum(0)
    shown = counts >= min_size
    sums = member.to(values.dtype).mT @ values
    mask = shown.view(-1, *[1] * (values.dim() - 1))
    return GroupSums(sums * mask.to(values.dtype), counts * shown.to(counts.dtype))
