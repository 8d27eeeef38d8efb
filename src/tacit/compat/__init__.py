"""Programs written for other systems: their names and conventions, over Tacit's own functions."""

from . import crypten

__all__ = ["crypten"]
