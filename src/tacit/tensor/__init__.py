"""Secret tensors: torch.Tensors whose values no party knows."""

from . import compilers, dispatch, optimizer_hooks  # noqa: F401  dispatch registers the rules
from .secret import SecretTensor

__all__ = ["SecretTensor"]

compilers.register()
optimizer_hooks.register()
