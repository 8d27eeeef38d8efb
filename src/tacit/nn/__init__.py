"""Modules on secrets: sharing, revealing, validating, folding, saving them."""

from .folding import fold_batch_norm
from .sharing import reveal, share
from .validate import Problem, validate

__all__ = ["Problem", "fold_batch_norm", "reveal", "share", "validate"]
