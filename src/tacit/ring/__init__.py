"""Integers mod 2^k in torch tensors, and the slow, obvious reference of every kernel."""

from .ring import RING32, RING64, Ring, ring_of

__all__ = ["RING32", "RING64", "Ring", "ring_of"]
