"""The rules by family. Importing a family registers it."""

from . import compare, conv, copy, elementwise, linear, norm, pool, reduce, shape

__all__ = ["compare", "conv", "copy", "elementwise", "linear", "norm", "pool", "reduce", "shape"]
