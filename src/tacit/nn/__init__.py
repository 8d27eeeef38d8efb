"""Modules on secrets: sharing, revealing, validating, calibrating, folding, saving them."""

from .calibrate import Calibration, calibrate, tighten
from .checkpoint import Checkpoint, load, save
from .folding import fold_batch_norm
from .sharing import reveal, share
from .validate import Problem, validate

__all__ = [
    "Calibration",
    "Checkpoint",
    "Problem",
    "calibrate",
    "fold_batch_norm",
    "load",
    "reveal",
    "save",
    "share",
    "tighten",
    "validate",
]
