"""Operations over dimensions: sums, extremes, order, running values."""

from . import order, scan, sort_by, sums

__all__ = ["order", "scan", "sort_by", "sums"]
