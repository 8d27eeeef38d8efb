"""Functions of tensors, compared with what other packages compute of the same arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from tests.tensor.comparison import on_secrets
from torch import Tensor

TRIO = {"protocol": "trio", "parties": 3}
BOTH = pytest.mark.parametrize("settings", [{}, TRIO], ids=["cleartext", "trio"])

Function = Callable[..., Tensor | Sequence[Tensor]]


def compare(
    function: Function,
    wanted: Any,
    *inputs: Any,
    error: float | Sequence[float] = 2**-11,
    plain_error: float = 1e-9,
    settings: dict[str, Any] | None = None,
) -> None:
    """The function gives `wanted` on plain tensors, and on secret ones within `error`.

    `wanted` is an array, or a tuple of them with an error for each.
    """
    arrays = wanted if isinstance(wanted, tuple) else (wanted,)
    errors = error if isinstance(error, Sequence) else [error] * len(arrays)
    given = [torch.as_tensor(x) for x in inputs]
    plain, secret = function(*given), on_secrets(function, *given, **(settings or {}))
    single = isinstance(plain, Tensor)
    for i, (array, allowed) in enumerate(zip(arrays, errors, strict=True)):
        right = torch.as_tensor(np.asarray(array, dtype=np.float64))
        one, other = (plain, secret) if single else (plain[i], secret[i])
        assert one.dtype == other.dtype
        _close(one, right, plain_error, f"plain result {i}")
        _close(other, right, allowed, f"secret result {i}")


def _close(found: Tensor, right: Tensor, error: float, what: str) -> None:
    torch.testing.assert_close(
        found.double(), right, atol=error, rtol=0, msg=lambda text: f"{what}: {text}"
    )
