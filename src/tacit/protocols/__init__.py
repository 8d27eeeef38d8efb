"""Shares of secret integers and bits, and what parties compute on them in rounds.

Secrets are integers mod 2^k with a public bound, or bits. Some operations take the number of
fraction bits of an integer as an argument (a public scale); the encoding of real numbers and their
range belong to `fixedpoint`. Protocols are made by name (`tacit.registry`).
"""

from .additive.protocol import Additive
from .base import Protocol
from .cleartext import Cleartext
from .context import Context
from .conversion import convert
from .core import BitSum
from .enclave import Enclave
from .factory import check_parties, key_groups, make_protocol
from .observed import ALONE, Comparison, cleartext_alone
from .out_of_memory import out_of_memory
from .products.bilinear import MATMUL, MUL, Bilinear, Conv, ConvGradInput, ConvGradWeight, Einsum
from .quad.protocol import Quad
from .replicated.protocol import Replicated
from .reveals import PrivacySpent, Revealed, RevealPolicy, helper_names, party_names
from .share import Arith, Bool, Plain
from .trio import Trio
from .verified.protocol import ReplicatedMalicious

__all__ = [
    "ALONE",
    "MATMUL",
    "MUL",
    "Additive",
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
    "Enclave",
    "Plain",
    "PrivacySpent",
    "Protocol",
    "Quad",
    "Replicated",
    "ReplicatedMalicious",
    "RevealPolicy",
    "Revealed",
    "Trio",
    "check_parties",
    "cleartext_alone",
    "convert",
    "helper_names",
    "key_groups",
    "make_protocol",
    "out_of_memory",
    "party_names",
]
