"""Modules on secrets: sharing, revealing, validating, folding, saving them."""

from .checkpoint import Checkpoint, load, save
from .folding import fold_batch_norm
from .sharing import reveal, share
from .validate import Problem, validate

__all__ = [
    "Checkpoint",
    "Problem",
    "fold_batch_norm",
    "load",
    "reveal",
    "save",
    "share",
    "validate",
]
