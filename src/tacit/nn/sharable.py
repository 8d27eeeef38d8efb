"""What can be shared as a tensor: tensors, numpy arrays, frames, lists of numbers, numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import ConfigError

Number = bool | int | float
NEEDED = (
    "tensors, modules, numpy arrays, frames of numbers, lists of numbers and numbers can be shared"
)


def is_list_of_numbers(value: Any) -> bool:
    """Returns whether a value is a list, or a list of lists, of numbers and nothing else."""
    if not isinstance(value, list) or not value:
        return False
    return all(isinstance(x, np.generic | Number) or is_list_of_numbers(x) for x in value)


def as_tensor(value: Any, path: str) -> Tensor:
    """Returns a tensor as it is; an array, a frame, a list or a number as a new tensor."""
    if isinstance(value, Tensor):
        return value
    is_known = isinstance(value, np.generic | Number) or is_list_of_numbers(value)
    if not is_known and not hasattr(value, "__array__"):
        raise _refused(f"{path} is a {type(value).__name__}", NEEDED)
    try:
        return torch.tensor(value if is_known else np.array(value))
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise _refused(
            f"{path} is {_described(value)}, which no tensor can hold", NEEDED
        ) from error


def _described(value: Any) -> str:
    """Returns what a value is that cannot be shared, without its contents."""
    if isinstance(value, list):
        return "a list of lists of different lengths, or of too large numbers"
    if isinstance(value, np.generic | Number):
        return "a number"
    if isinstance(value, np.ndarray):
        return f"a numpy array of {value.dtype}"
    return (
        f"a {type(value).__name__} of text, dates or several types (session.load takes a frame "
        "with columns=)"
    )


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
