"""Integers mod 2^k in torch tensors, and the slow, obvious reference of every kernel."""

from .ot_product import OtProduct
from .ring import RING32, RING64, WORD, Ring, num_words, ring_of
from .window import Sizes, Window

__all__ = [
    "RING32",
    "RING64",
    "WORD",
    "OtProduct",
    "Ring",
    "Sizes",
    "Window",
    "num_words",
    "ring_of",
]
