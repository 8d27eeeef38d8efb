"""Shares and what can be computed on them."""

from .base import Protocol
from .cleartext import Cleartext
from .context import Context
from .core import BitSum
from .factory import check_parties, make_protocol
from .observed import ALONE, Comparison, cleartext_alone
from .out_of_memory import out_of_memory
from .products.bilinear import MATMUL, MUL, Bilinear, Conv, ConvGradInput, ConvGradWeight, Einsum
from .replicated.protocol import Replicated
from .reveals import Revealed, RevealPolicy, party_names
from .share import Arith, Bool
from .trio import Trio

__all__ = [
    "ALONE",
    "MATMUL",
    "MUL",
    "Arith",
    "Bilinear",
    "BitSum",
    "Bool",
    "Cleartext",
    "Comparison",
    "Context",
    "Conv",
    "ConvGradInput",
    "ConvGradWeight",
    "Einsum",
    "Protocol",
    "Replicated",
    "RevealPolicy",
    "Revealed",
    "Trio",
    "check_parties",
    "cleartext_alone",
    "make_protocol",
    "out_of_memory",
    "party_names",
]
