"""k-means: Lloyd's algorithm with a public number of steps."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ..tensor.long_loops import counted
from ..tensor.row_sums import require_rows


class Clusters(NamedTuple):
    """The centres (k, p), and for each row the number of its centre."""

    centres: Tensor
    labels: Tensor


def k_means(x: Tensor, start: Tensor, steps: int = 10) -> Clusters:
    """Returns k centres of the rows of x, of shape (n, p), from `start`, of shape (k, p).

    Like scikit-learn's `KMeans(init=start, n_init=1, max_iter=steps)`, without an end before the
    last step, which would tell when it converged. A centre without rows stays where it is. `start`
    is public or secret: rows that a public permutation chooses, say. Distances are compared by
    |c|^2 / 2 - x c, which should stay below 2^10 on secrets; the sums of a cluster's rows are below
    2^range_bits.

    >>> x = torch.tensor([[0.0], [1.0], [9.0], [11.0]])
    >>> k_means(x, x[:2], steps=5)
    Clusters(centres=tensor([[ 0.5000],
            [10.0000]]), labels=tensor([0, 0, 1, 1]))
    """
    require_rows("k_means", x)
    centres = start
    for _ in counted(range(steps), "k-means", x):
        member = torch.nn.functional.one_hot(_nearest(x, centres), start.shape[0]).to(x.dtype)
        counts = member.sum(0).unsqueeze(-1)
        empty = (counts == 0).to(x.dtype)
        centres = empty * centres + member.mT @ x / (counts + empty)
    return Clusters(centres, _nearest(x, centres))


def _nearest(x: Tensor, centres: Tensor) -> Tensor:
    """Returns the number of the centre that is nearest to each row, the first of equals."""
    return (centres.square().sum(1) / 2 - x @ centres.mT).argmin(1)
