"""Functions of torch that cannot be right on secrets by rules for their operators.

Each is replaced by one that, with a secret operand, computes in another way, and else is torch's.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from . import recurrent_functions, value_checks, vector_norms, weighted_draws
from .secret import SecretTensor

# where the function is, its name, and what is computed on secrets; it is given torch's as plain=
REPLACED: list[tuple[Any, str, Callable[..., Any]]] = [
    (torch.nn.functional, "gaussian_nll_loss", value_checks.gaussian_nll_loss),
    (torch, "cov", value_checks.cov),
    (torch, "multinomial", weighted_draws.multinomial),
    (torch.linalg, "vector_norm", vector_norms.vector_norm),
    (torch.linalg, "norm", vector_norms.norm),
    *((torch._VF, name, secret) for name, secret in recurrent_functions.FUNCTIONS.items()),
]


def register() -> None:
    """Replaces the functions; once, when the package is imported."""
    for place, name, secret in REPLACED:
        setattr(place, name, _on_secrets(getattr(place, name), secret))
    SecretTensor.cov = torch.cov  # type: ignore[method-assign,assignment]
    SecretTensor.multinomial = torch.multinomial  # type: ignore[method-assign,assignment]


def _on_secrets(plain: Callable[..., Any], secret: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(plain)
    def chosen(*args: Any, **kwargs: Any) -> Any:
        if any(isinstance(x, SecretTensor) for x in tree_leaves((args, kwargs))):
            return secret(*args, plain=plain, **kwargs)
        return plain(*args, **kwargs)

    return chosen
