"""Long training: secret checkpoints that all parties have, and a record of revealed numbers."""

from .training import Schedule, Training

__all__ = ["Schedule", "Training"]
