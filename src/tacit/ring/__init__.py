"""Integers mod 2^k in torch tensors, and the slow, obvious reference of every kernel."""

from .ring import RING32, RING64, Ring, ring_of
from .window import Sizes, Window

__all__ = ["RING32", "RING64", "Ring", "Sizes", "Window", "ring_of"]
