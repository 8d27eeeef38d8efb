"""Operations on each element alone."""

from . import (
    activations,
    arithmetic,
    compare,
    functions,
    inverse_trigonometric,
    modulo,
    powers,
    rounding,
)

__all__ = [
    "activations",
    "arithmetic",
    "compare",
    "functions",
    "inverse_trigonometric",
    "modulo",
    "powers",
    "rounding",
]
