"""Shares and what can be computed on them."""

from .base import Protocol
from .bilinear import MATMUL, MUL, Bilinear, Conv, ConvGradInput, ConvGradWeight, Einsum
from .choose import check_parties, make_protocol, promise_of
from .cleartext import Cleartext
from .context import Context
from .exhaustion import explained, out_of_memory
from .openings import Openings, Revealed, party_names
from .promise import Promise
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
    "Openings",
    "Promise",
    "Protocol",
    "Replicated",
    "Revealed",
    "Row",
    "Trio",
    "check_parties",
    "explained",
    "make_protocol",
    "out_of_memory",
    "party_names",
    "promise_of",
]
