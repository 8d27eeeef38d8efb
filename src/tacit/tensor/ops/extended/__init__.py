"""Rules for the kinds of value that carry extra fraction bits."""

from . import fine_gradients, mean_square, moments

__all__ = ["fine_gradients", "mean_square", "moments"]
