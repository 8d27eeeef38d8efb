"""Secret tensors: torch.Tensors whose values no party knows."""

from . import dispatch  # noqa: F401  registers the rules
from .secret import SecretTensor

__all__ = ["SecretTensor"]
