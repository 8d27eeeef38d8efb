"""Products, norms and distances of matrices and vectors."""

from . import distance, matmul, vector_norm

__all__ = ["distance", "matmul", "vector_norm"]
