"""What can be shared as a tensor: tensors, numpy arrays and numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import ConfigError

Number = bool | int | float
NEEDED = "tensors, modules, numpy arrays and numbers can be shared"


def as_tensor(value: Any, path: str) -> Tensor:
    """Returns a tensor as it is, and a numpy array or a number as a new tensor."""
    if isinstance(value, Tensor):
        return value
    if isinstance(value, np.ndarray | np.generic | Number):
        try:
            return torch.tensor(np.array(value) if isinstance(value, np.ndarray) else value)
        except (TypeError, ValueError, RuntimeError, OverflowError) as error:
            kind = f"numpy array of {value.dtype}" if isinstance(value, np.ndarray) else "number"
            raise _refused(f"{path} is a {kind}, which no tensor can hold", NEEDED) from error
    remedy = NEEDED
    if hasattr(value, "to_numpy"):
        remedy = "share its numbers, such as share(data[columns].to_numpy(), ...)"
    raise _refused(f"{path} is a {type(value).__name__}", remedy)


def tensor_or_form(value: Any, shape: Sequence[int] | None, dtype: torch.dtype | None) -> Tensor:
    """Returns the value as a tensor, or one without values from its shape and dtype.

    Raises ConfigError if both are given and differ.
    """
    if value is None:
        if shape is None:
            raise _refused(
                "a party that is not the owner gives a tensor of the same shape, or shape=",
                "dtype= is needed too unless the owner's is float32",
            )
        return torch.empty(tuple(shape), dtype=dtype or torch.float32, device="meta")
    tensor = as_tensor(value, "the value")
    if shape is not None and tuple(shape) != tuple(tensor.shape):
        raise _refused(f"shape={tuple(shape)} is not the value's {tuple(tensor.shape)}")
    if dtype is not None and dtype != tensor.dtype:
        raise _refused(f"dtype={dtype} is not the value's {tensor.dtype}")
    return tensor


def form_of(value: Any) -> str:
    """Returns what the parties compare of a value: shape and dtype, or else its type."""
    if isinstance(value, Tensor):
        return f"shape {tuple(value.shape)}, {str(value.dtype).removeprefix('torch.')}"
    return f"a {type(value).__name__}"


def _refused(reason: str, remedy: str | None = None) -> ConfigError:
    return ConfigError(reason, remedy=remedy, subject="share")
