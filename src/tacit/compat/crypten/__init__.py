"""CrypTen's interface over Tacit: `import tacit.compat.crypten as crypten`.

docs/guides/crypten.md says what differs.
"""

from collections.abc import Sequence
from typing import Any

import torch

from . import common, communicator, debug, gradients, mpc, nn, optim
from . import communicator as comm
from .config import cfg
from .cryptensor import CrypTensor, MPCTensor
from .initialization import current_session, init, is_initialized, uninit
from .printing import log, print, print_in_order
from .ptype import ptype
from .saving import load, load_from_party, save, save_from_party
from .seeding import manual_seed
from .tensor_types import (
    class_of,
    cryptensor,
    get_cryptensor_type,
    get_default_cryptensor_type,
    register_cryptensor,
    set_default_cryptensor_type,
)

no_grad = CrypTensor.no_grad
enable_grad = CrypTensor.enable_grad
set_grad_enabled = CrypTensor.set_grad_enabled

__all__ = [
    "CrypTensor",
    "MPCTensor",
    "bernoulli",
    "cat",
    "cfg",
    "comm",
    "common",
    "communicator",
    "cryptensor",
    "debug",
    "enable_grad",
    "fill_cache",
    "get_cryptensor_type",
    "get_default_cryptensor_type",
    "gradients",
    "init",
    "is_encrypted_tensor",
    "is_initialized",
    "load",
    "load_from_party",
    "log",
    "manual_seed",
    "mpc",
    "nn",
    "no_grad",
    "optim",
    "print",
    "print_communication_stats",
    "print_in_order",
    "ptype",
    "rand",
    "randn",
    "register_cryptensor",
    "reset_communication_stats",
    "save",
    "save_from_party",
    "set_default_cryptensor_type",
    "set_grad_enabled",
    "stack",
    "trace",
    "uninit",
    "where",
]


def cat(tensors: Sequence[Any], dim: int = 0) -> Any:
    """Returns the tensors one after the other along a dimension."""
    return MPCTensor.cat(tensors, dim)


def stack(tensors: Sequence[Any], dim: int = 0) -> Any:
    """Returns the tensors one after the other along a new dimension."""
    return MPCTensor.stack(tensors, dim)


def where(condition: Any, input: Any, other: Any) -> Any:
    """Returns `input` where the condition, public or secret, is 1, and `other` where it is 0."""
    if is_encrypted_tensor(input):
        return input.where(condition, other)
    if is_encrypted_tensor(condition):
        return condition * (input - other) + other
    return other.where(torch.logical_not(condition), input)


def rand(*sizes: Any, device: Any = None, cryptensor_type: str | None = None) -> Any:
    """Returns uniform numbers from 0 to 1 that nobody knows."""
    return class_of(cryptensor_type).rand(*sizes, device=device)


def randn(*sizes: Any, device: Any = None, cryptensor_type: str | None = None) -> Any:
    """Returns standard normal numbers that nobody knows."""
    return class_of(cryptensor_type).randn(*sizes, device=device)


def bernoulli(tensor: Any, cryptensor_type: str | None = None) -> Any:
    """Returns 1 with the probabilities that a tensor says, public or secret, and else 0."""
    if is_encrypted_tensor(tensor):
        return tensor.bernoulli()
    return class_of(cryptensor_type).of(current_session().random.bernoulli(tensor))


def trace(tracing: bool = True) -> None:
    """Does nothing: no list of products is needed before they are prepared, see `fill_cache`."""


def fill_cache() -> None:
    """Does nothing: the parties prepare products in batches, when a program needs them."""


def is_encrypted_tensor(obj: Any) -> bool:
    """Returns whether this is a tensor of secrets."""
    return isinstance(obj, CrypTensor)


def print_communication_stats() -> None:
    """Prints rounds, bytes and waiting of this party since they were reset."""
    communicator.get().print_communication_stats()


def reset_communication_stats() -> None:
    """Counts rounds, bytes and waiting of this party from here."""
    communicator.get().reset_communication_stats()
