"""Changes of shape, and elements picked and placed."""

from . import indexing, scatter_reduce, views

__all__ = ["indexing", "scatter_reduce", "views"]
