"""Modules on secrets: sharing, revealing, validating, calibrating, folding, saving them."""

from .calibrate import Calibration, calibrate, tighten
from .checkpoint import load, save
from .checkpoint_file import Checkpoint
from .folding import BatchNormPlace, batch_norm_places, fold_batch_norm
from .sharing import reveal, share
from .validate import Problem, Survey, survey, validate

__all__ = [
    "BatchNormPlace",
    "Calibration",
    "Checkpoint",
    "Problem",
    "Survey",
    "batch_norm_places",
    "calibrate",
    "fold_batch_norm",
    "load",
    "reveal",
    "save",
    "share",
    "survey",
    "tighten",
    "validate",
]
