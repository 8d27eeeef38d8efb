"""Changes of shape, indexing, gathering and scattering."""

from . import index, scatter_reduce, shape

__all__ = ["index", "scatter_reduce", "shape"]
