"""Operations on values with extended precision: optimizers' moments, mean squares."""

from . import mean_square, moments, optimizers

__all__ = ["mean_square", "moments", "optimizers"]
