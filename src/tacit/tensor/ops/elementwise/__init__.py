"""Operations on each element alone."""

from . import activations, arithmetic, compare, functions, trigonometric

__all__ = ["activations", "arithmetic", "compare", "functions", "trigonometric"]
