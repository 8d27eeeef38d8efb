"""CrypTen's interface over Tacit: `import tacit.compat.crypten as crypten`.

docs/guides/crypten.md says what differs.
"""

from typing import Any

from . import nn, optim
from .cryptensor import CrypTensor, MPCTensor
from .initialization import init, is_initialized, uninit
from .ptype import ptype

no_grad = CrypTensor.no_grad
enable_grad = CrypTensor.enable_grad
set_grad_enabled = CrypTensor.set_grad_enabled

__all__ = [
    "CrypTensor",
    "MPCTensor",
    "cryptensor",
    "enable_grad",
    "init",
    "is_encrypted_tensor",
    "is_initialized",
    "nn",
    "no_grad",
    "optim",
    "ptype",
    "set_grad_enabled",
    "uninit",
]


def cryptensor(tensor: Any, *args: Any, **options: Any) -> MPCTensor:
    """Returns the numbers of a party as secrets; the options are those of `MPCTensor`."""
    return MPCTensor(tensor, *args, **options)


def is_encrypted_tensor(value: Any) -> bool:
    """Returns whether this is a tensor of secrets."""
    return isinstance(value, CrypTensor)
