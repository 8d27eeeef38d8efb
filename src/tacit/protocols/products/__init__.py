"""Products that one party computes on its parts of secrets. Local: no other party can tell.

executor.py calls chunks.py (which pieces to compute), then cache.py (the right operands of a piece,
encoded if they are used again), then the kernel through bilinear.py. Nothing calls back. What a
large product is sent as, while it is computed, is in tiled.py.
"""
