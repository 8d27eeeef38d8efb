"""Secret tensors: torch.Tensors whose values no party knows."""

from . import assigned_data, compilers, dispatch, optimizer_hooks, replaced_functions  # noqa: F401  the rules
from .secret import SecretTensor

__all__ = ["SecretTensor"]

assigned_data.register()
compilers.register()
optimizer_hooks.register()
replaced_functions.register()
