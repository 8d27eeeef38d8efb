"""Shares and what can be computed on them."""

from .base import Protocol
from .bilinear import MATMUL, MUL, Bilinear, Conv, ConvGradInput, ConvGradWeight, Einsum
from .choose import check_parties, make_protocol
from .cleartext import Cleartext
from .context import Context
from .replicated.protocol import Replicated
from .rows import Row
from .share import Arith, Bool
from .trio import Trio

__all__ = [
    "MATMUL",
    "MUL",
    "Arith",
    "Bilinear",
    "Bool",
    "Cleartext",
    "Context",
    "Conv",
    "ConvGradInput",
    "ConvGradWeight",
    "Einsum",
    "Protocol",
    "Replicated",
    "Row",
    "Trio",
    "check_parties",
    "make_protocol",
]
