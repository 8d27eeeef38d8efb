"""The rules by family. Importing a family registers it."""

from . import (
    activations,
    compare,
    conv,
    copy,
    create,
    elementwise,
    functions,
    linear,
    norm,
    pad,
    pool,
    reduce,
    shape,
    softmax,
    whole,
)

__all__ = [
    "activations",
    "compare",
    "conv",
    "copy",
    "create",
    "elementwise",
    "functions",
    "linear",
    "norm",
    "pad",
    "pool",
    "reduce",
    "shape",
    "softmax",
    "whole",
]
