"""The rules by family. Importing a family registers it."""

from . import elementwise, linear, shape

__all__ = ["elementwise", "linear", "shape"]
