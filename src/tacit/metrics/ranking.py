"""How well scores put the positive rows first."""

from __future__ import annotations

import torch
from torch import Tensor

from ..tensor.ops.reductions.sort_by import SORT_BY
from ..tensor.row_shapes import require_one_a_row
from ..tensor.row_sums import require_rows
from .class_dtypes import require_classes


def roc_auc(labels: Tensor, scores: Tensor) -> Tensor:
    """Returns the area under the ROC curve: labels 0 and 1, and scores, both of shape (n,).

    It is the probability that a positive row has a higher score than a negative one; equal scores
    count half. The labels are sorted by the scores, and the area is that of trapezoids between
    different scores. One sort and one `cummax`. On secrets there may be up to 2^range_bits
    rows, 2^20 by default, and at least one of each label has to be there.

    >>> roc_auc(torch.tensor([0, 1, 0, 1]), torch.tensor([0.1, 0.4, 0.4, 0.8]))
    tensor(0.8750)
    """
    require_classes("roc_auc", labels=labels)
    require_one_a_row("roc_auc", labels, scores=scores)
    require_rows("roc_auc", labels, scores)
    dtype = scores.dtype if scores.is_floating_point() else torch.get_default_dtype()
    ordered, true = SORT_BY(scores, labels.to(torch.int64), descending=True)
    last = torch.ones_like(ordered[:1], dtype=torch.bool)
    ends = torch.cat([ordered[1:] < ordered[:-1], last]).to(torch.int64)
    counts = torch.stack([true, 1 - true]).cumsum(1)
    at_ends = counts * ends
    before = torch.nn.functional.pad(at_ends.cummax(1)[0][:, :-1], (1, 0))
    height, width = at_ends[0] + before[0] * ends, at_ends[1] - before[1] * ends
    positives, negatives = counts[:, -1].to(dtype)
    return (height.to(dtype) / positives * width.to(dtype)).sum() / (2 * negatives)
