"""The rules by family. Importing a family registers it."""

from . import creation, elementwise, extended, linalg, nn, reductions, refused, shape

__all__ = [
    "creation",
    "elementwise",
    "extended",
    "linalg",
    "nn",
    "reductions",
    "refused",
    "shape",
]
