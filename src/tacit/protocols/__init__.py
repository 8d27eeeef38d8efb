"""Shares and what can be computed on them."""

from .base import Protocol
from .bilinear import MATMUL, MUL, Bilinear, Conv, ConvGradInput, ConvGradWeight, Einsum
from .choose import check_parties, make_protocol
from .context import Context
from .rows import Row
from .share import Arith, Bool
from .trio import Trio

__all__ = [
    "MATMUL",
    "MUL",
    "Arith",
    "Bilinear",
    "Bool",
    "Context",
    "Conv",
    "ConvGradInput",
    "ConvGradWeight",
    "Einsum",
    "Protocol",
    "Row",
    "Trio",
    "check_parties",
    "make_protocol",
]
