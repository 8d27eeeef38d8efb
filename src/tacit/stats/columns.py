"""What the columns of a table look like: standardised, correlated, counted in bins, quantiles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ..errors import ConfigError
from ..tensor.row_sums import require_rows


class Standardised(NamedTuple):
    """Columns with mean 0 and variance 1, and what they had."""

    columns: Tensor
    mean: Tensor
    deviation: Tensor


def standardise(x: Tensor) -> Standardised:
    """Returns each column of (n, ...) less its mean, over its standard deviation (of n, not n - 1).

    On secrets the deviation has to be between 2^-8 and 2^9: scale other columns by a public factor
    before. A constant column gives NaN on plain tensors, and numbers without meaning on secrets.
    """
    mean = x.mean(0)
    deviation = x.std(0, correction=0)
    return Standardised((x - mean) / deviation, mean, deviation)


def correlation(x: Tensor) -> Tensor:
    """Returns Pearson's correlations between the columns of (n, p), a (p, p) matrix.

    Like `numpy.corrcoef(x, rowvar=False)`. Errors on secrets are about 2^-f over the smallest
    deviation of a column, and 2^-14 if all are above 1; n is at most 2^range_bits.

    >>> correlation(torch.tensor([[0.0, 1.0], [2.0, 0.0]]))
    tensor([[ 1., -1.],
            [-1.,  1.]])
    """
    require_rows("correlation", x)
    columns = standardise(x).columns
    return columns.mT @ columns / x.shape[0]


def histogram(x: Tensor, edges: Tensor) -> Tensor:
    """Returns how many elements lie between each two edges, as `numpy.histogram` counts them.

    A bin includes its lower edge, and the last one both. The edges ascend, public or secret. All
    elements are compared with all edges in the rounds of one comparison. What leaks: nothing.

    >>> histogram(torch.tensor([0.5, 1.0, 1.5, 2.0, 7.0]), torch.tensor([0.0, 1.0, 2.0]))
    tensor([1, 3])
    """
    values = x.reshape(-1, 1)
    from_lower = (values >= edges[:-1]).sum(0)
    above = (values > edges[-1:]).sum(0)
    return from_lower - torch.cat([from_lower[1:], above])


def quantiles(x: Tensor, q: Sequence[float]) -> Tensor:
    """Returns the quantiles q of each column of (n, ...), a row for each, linearly interpolated.

    Like `numpy.quantile(x, q, axis=0)`. One sort, whatever the number of quantiles.

    >>> quantiles(torch.tensor([3.0, 1.0, 2.0, 10.0]), [0.5, 1.0])
    tensor([ 2.5000, 10.0000])
    """
    if not q or not all(0 <= one <= 1 for one in q):
        raise ConfigError(f"q={list(q)}", limit="quantiles are from 0 to 1", subject="quantiles")
    ordered = x.sort(0)[0]
    places = torch.as_tensor(q, dtype=torch.float64) * (x.shape[0] - 1)
    low = places.floor().long()
    share = (places - low).to(x.dtype).view(-1, *[1] * (x.dim() - 1))
    return ordered[low] + share * (ordered[(low + 1).clamp(max=x.shape[0] - 1)] - ordered[low])
