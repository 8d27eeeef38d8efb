"""Rules for the kinds of value that carry extra fraction bits."""

from . import mean_square, moments

__all__ = ["mean_square", "moments"]
