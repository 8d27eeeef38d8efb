"""What computes on secrets in the place of operations of torch and numpy that have no rule."""

from __future__ import annotations

import torch
from torch._ops import OpOverload

SOLVE = "tacit.stats.solve(a, b) computes on secrets, and gives the least squares solution"
CHOLESKY = "tacit.stats.cholesky(a) computes on secrets, of a positive definite matrix"
DETERMINANT = (
    "of a positive definite a, the product of the squared diagonal of tacit.stats.cholesky(a)"
)
EIGH = "tacit.stats.eigh(a) computes on secrets"
HISTOGRAM = "tacit.stats.histogram(x, edges) computes on secrets"

SUBSTITUTES = {
    "_linalg_solve_ex": SOLVE,
    "linalg_lstsq": SOLVE,
    "linalg_pinv": SOLVE,
    "linalg_solve_triangular": SOLVE,
    "triangular_solve": SOLVE,
    "cholesky_solve": SOLVE,
    "linalg_lu": SOLVE,
    "linalg_lu_factor_ex": SOLVE,
    "linalg_qr": "tacit.stats.cholesky(a.mT @ a).mT computes r of secrets, if the columns of a are "
    "independent, and tacit.stats.pca(x, ...) principal components",
    "linalg_inv_ex": "tacit.stats.inverse(a) computes on secrets, of a positive definite matrix; "
    "tacit.stats.solve(a, torch.eye(n)) of others",
    "linalg_cholesky_ex": CHOLESKY,
    "cholesky": CHOLESKY,
    "_linalg_det": DETERMINANT,
    "_linalg_slogdet": DETERMINANT,
    "_linalg_eigh": EIGH,
    "_linalg_svd": "tacit.stats.eigh(a.mT @ a) computes squared singular values of secrets, and "
    "tacit.stats.pca(x, ...) principal components",
    "histc": HISTOGRAM,
    "histogram": HISTOGRAM,
}


# Functions of numpy that need an operation of another name.
NUMPY_NAMES = {"eigvalsh": "eigh", "cond": "svd", "matrix_rank": "svd"}
OF_NUMPY = {
    "allclose": "torch.isclose(a, b).all() computes on secrets",
    "average": "torch.mean computes on secrets",
    "dot": "torch.matmul computes on secrets",
    "bincount": "torch.nn.functional.one_hot(x, num_classes).sum(0) computes on secrets",
    "percentile": "torch.quantile(x, percent / 100) computes on secrets",
    "save": "tacit.nn.save keeps secrets in a checkpoint",
}
# torch has these names, and no rule for secrets: many results have a shape that tells values.
WITHOUT_RULE = (
    *("angle", "argwhere", "can_cast", "eig", "fft", "histogramdd", "i0", "imag", "linspace"),
    *("logspace", "nonzero", "put", "unique", "unravel_index", "vander"),
)


def numpy_substitute(name: str) -> str | None:
    """Returns what to use in the place of a function of numpy; None if nothing is known."""
    same = NUMPY_NAMES.get(name, name)
    for operation in (same, f"linalg_{same}", f"_linalg_{same}"):
        for key in (operation, f"{operation}_ex"):
            if key in SUBSTITUTES:
                return SUBSTITUTES[key]
    if name in OF_NUMPY:
        return OF_NUMPY[name]
    if hasattr(torch, name) and name not in WITHOUT_RULE:
        return f"torch.{name} computes on secrets"
    return None


def substitute(func: OpOverload) -> str | None:
    """Returns what to use in the place of an operation; None if nothing is known."""
    return SUBSTITUTES.get(func._schema.name.removeprefix("aten::"))
