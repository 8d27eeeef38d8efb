"""Private machine learning for PyTorch: parties compute on shares, and nobody sees the data."""

from . import errors

__version__ = "0.1.0"
__all__ = ["__version__", "errors"]
