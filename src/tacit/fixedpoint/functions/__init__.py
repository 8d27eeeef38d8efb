"""Functions of secret reals over their whole domain: methods, errors and rounds."""

from . import (
    curves,
    exponential,
    periodic,
    pieces,
    powers,
    quotient,
    roots,
    sigmoids,
    softmax,
)

__all__ = [
    "curves",
    "exponential",
    "periodic",
    "pieces",
    "powers",
    "quotient",
    "roots",
    "sigmoids",
    "softmax",
]
