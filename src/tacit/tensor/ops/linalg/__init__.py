"""Products, norms and distances of matrices and vectors."""

from . import matmul, norms

__all__ = ["matmul", "norms"]
