"""Differential privacy: noise that nobody knows, clipping on secrets, and what it costs.

A mechanism is given to `session.reveal(x, dp=...)`; `PrivacyEngine` makes a training private.
"""

from .accountant import Accountant, noise_multiplier_for
from .clipping import clipped_rows, clipped_sum
from .engine import PrivacyEngine
from .mechanisms import Gaussian, Laplace, Mechanism, RandomisedResponse

__all__ = [
    "Accountant",
    "Gaussian",
    "Laplace",
    "Mechanism",
    "PrivacyEngine",
    "RandomisedResponse",
    "clipped_rows",
    "clipped_sum",
    "noise_multiplier_for",
]
