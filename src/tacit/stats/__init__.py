"""Statistics as functions of tensors, the same for plain and for secret ones.

Shapes, numbers of steps and the order of operations are public and do not depend on values. A
result is as secret as the arguments are.
"""

from .clusters import Clusters, k_means
from .columns import Standardised, correlation, histogram, quantiles, standardise
from .components import PrincipalComponents, pca
from .eigenvalues import eigh
from .elimination import cholesky, inverse, solve
from .groups import GroupSums, group_sums
from .linear_models import LinearFit, LogisticFit, linear_regression, logistic_regression

__all__ = [
    "Clusters",
    "GroupSums",
    "LinearFit",
    "LogisticFit",
    "PrincipalComponents",
    "Standardised",
    "cholesky",
    "correlation",
    "eigh",
    "group_sums",
    "histogram",
    "inverse",
    "k_means",
    "linear_regression",
    "logistic_regression",
    "pca",
    "quantiles",
    "solve",
    "standardise",
]
