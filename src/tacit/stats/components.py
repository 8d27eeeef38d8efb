"""Principal components of a table."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from .eigenvalues import eigh


class PrincipalComponents(NamedTuple):
    """Components (k, p) by falling variance, their variances (k,), and the mean of each column."""

    components: Tensor
    variances: Tensor
    mean: Tensor


def pca(x: Tensor, num_components: int, sweeps: int = 6) -> PrincipalComponents:
    """Returns the principal components of the columns of x, of shape (n, p), as scikit-learn's.

    (x - mean) @ components.mT are the coordinates. The largest entry of a component is positive.
    Components come from the covariances, by `eigh`: see there for rounds and errors, which are
    those of the largest variance. So give columns of similar scale, or `standardise(x).columns`;
    for up to about 20 of them, with covariances below 2^18.
    """
    mean = x.mean(0)
    centred = (x - mean) / (x.shape[0] - 1) ** 0.5
    values, vectors = eigh(centred.mT @ centred, sweeps)
    components = vectors.mT.flip(0)[:num_components]
    largest, lowest = components.amax(1, keepdim=True), components.amin(1, keepdim=True)
    sign = 1 - 2 * (largest + lowest < 0).to(x.dtype)
    return PrincipalComponents(components * sign, values.flip(0)[:num_components], mean)
