"""Operations over dimensions: sums, extremes, order, running values."""

from . import order, reduce, scan

__all__ = ["order", "reduce", "scan"]
