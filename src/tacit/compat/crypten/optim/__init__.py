"""CrypTen's optimizers: torch's own, on the secrets of CrypTensors."""

from torch.optim import Optimizer

from .sgd import SGD

__all__ = ["SGD", "Optimizer"]
