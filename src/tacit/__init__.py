"""Private machine learning for PyTorch: parties compute on shares, and nobody sees the data."""

from . import errors
from .nn import calibrate
from .runtime import Session, run
from .tensor import SecretTensor

__version__ = "0.1.0"
__all__ = ["SecretTensor", "Session", "__version__", "calibrate", "errors", "run"]
