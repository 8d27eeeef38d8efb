"""Secret tensors: torch.Tensors whose values no party knows."""

from . import (
    assigned_data,
    compilers,
    dispatch,  # noqa: F401  the rules
    operator_objects,
    optimizer_hooks,
    replaced_functions,
)
from .secret import SecretTensor

__all__ = ["SecretTensor"]

assigned_data.register()
compilers.register()
operator_objects.register()
optimizer_hooks.register()
replaced_functions.register()
