"""`plain.data = secret`, which torch does in C++ without asking the class of either tensor.

torch copies the description of the one tensor to the other, with the address of its memory. A
secret has no memory, so the plain tensor would crash at the next read.

NOTE [own key]: before torch copies, it asks `_has_compatible_shallow_copy_type`. A kernel of that
operator can refuse, and only tensors with the dispatch keys of `OWN_KEYS` reach the kernel here.
PrivateUse3 is a backend that torch reserves and nobody has; a secret has the key besides those of
the CPU. It changes nothing else: torch hands every operation to the class before a backend's turn.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch._C import DispatchKey, DispatchKeySet

from ..errors import UnsupportedError
from .hidden import HiddenValues
from .module_path import name_place

OWN_KEYS = DispatchKeySet(DispatchKey.PrivateUse3) | DispatchKeySet(DispatchKey.AutocastCPU)

_library = torch.library.Library("aten", "IMPL")  # removes the kernel when it is deleted


def register() -> None:
    """Adds the kernel; once, when the package is imported."""
    _library.impl("_has_compatible_shallow_copy_type", is_compatible, "AutogradPrivateUse3")


def is_compatible(target: Tensor, source: Tensor) -> bool:
    """Whether one tensor may take the data of another; a plain one may not take a secret's."""
    if isinstance(source, HiddenValues) and not isinstance(target, HiddenValues):
        error = UnsupportedError(
            "a plain tensor cannot take the .data of a secret tensor",
            limit="its memory holds plain values",
            remedy="put the secret in its place: name = secret, or session.share(module)",
        )
        raise name_place(error)
    return isinstance(source, HiddenValues)
