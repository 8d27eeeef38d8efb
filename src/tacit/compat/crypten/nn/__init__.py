"""CrypTen's modules over torch's and Tacit's."""

from . import init, module
from .converted_models import from_onnx, from_pytorch, from_tensorflow
from .loss import (
    BCELoss,
    BCEWithLogitsLoss,
    CrossEntropyLoss,
    L1Loss,
    MSELoss,
    RAPPORLoss,
)
from .module import *  # noqa: F403

__all__ = [
    "BCELoss",
    "BCEWithLogitsLoss",
    "CrossEntropyLoss",
    "L1Loss",
    "MSELoss",
    "RAPPORLoss",
    "from_onnx",
    "from_pytorch",
    "from_tensorflow",
    "init",
    "module",
    *module.__all__,
]
