"""Functions of secret reals over their whole domain: methods, errors and rounds."""

from . import (
    exponential,
    piecewise,
    powers,
    quotient,
    roots,
    sigmoids,
    sine_series,
    softmax,
    trigonometric,
)

__all__ = [
    "exponential",
    "piecewise",
    "powers",
    "quotient",
    "roots",
    "sigmoids",
    "sine_series",
    "softmax",
    "trigonometric",
]
