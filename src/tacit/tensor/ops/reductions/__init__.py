"""Operations over dimensions: sums, extremes, order, running values."""

from . import order, scan, sums

__all__ = ["order", "scan", "sums"]
