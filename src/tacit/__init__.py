"""Private machine learning for PyTorch: parties compute on shares, and nobody sees the data."""

from . import errors
from .runtime import Session, run

__version__ = "0.1.0"
__all__ = ["Session", "__version__", "errors", "run"]
