"""Places drawn by secret weights, that nobody knows: torch's `multinomial`, and rows at them.

Of weights w_1, ..., w_k the place is the number of sums w_1 + ... + w_j, j < k, that a uniform
number below the sum of all is not below (CrypTen: Secure Multi-Party Computation Meets Machine
Learning, appendix C.3). Neither weights nor places are revealed.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..errors import ConfigError, UnsupportedOp
from .secret import SecretTensor


def weighted_places(weights: Tensor, count: int, *, replacement: bool) -> Tensor:
    """Returns `count` places along the last dimension, (..., count), for weights (..., k).

    Weights are 0 or more, with a sum well above a unit: each sum is compared to within one. Without
    replacement a drawn weight becomes 0 for the next draw, one after the other; there have to be
    `count` weights above 0.
    """
    return _passed(weights, count, replacement).sum(-1)


def weighted_rows(rows: Tensor, weights: Tensor, count: int, *, replacement: bool) -> Tensor:
    """Returns the rows at `count` places, (..., count, d), for weights (..., k) and rows (k, d)."""
    passed = _passed(weights, count, replacement)
    return _marks(passed, rows.dtype) @ rows


def _passed(weights: Tensor, count: int, replacement: bool) -> Tensor:
    """Returns for each draw which sums of weights but the last it is not below."""
    most = weights.shape[-1]
    if type(count) is not int or count < 1 or (count > most and not replacement):
        limit = "1 or more" if replacement else f"from 1 to {most} without replacement"
        raise ConfigError(f"{count} draws by {most} weights", limit=limit)
    if replacement:
        return _drawn(weights, count)
    passed: list[Tensor] = []
    for _ in range(count):
        passed.append(_drawn(weights, 1))
        weights = weights * (1 - _marks(passed[-1], torch.int64).squeeze(-2))
    return torch.cat(passed, -2)


def _drawn(weights: Tensor, count: int) -> Tensor:
    """The same for independent draws.

    Weights and the chosen number are divided before they are compared: a difference that is divided
    for each sum is rounded for each, and then equal sums, of which one adds a weight of 0, differ.
    """
    weights = _divided(weights)
    n = weights.numbers
    drawn = SecretTensor(n.random_uniform((*weights.shape[:-1], count), weights.dtype), n)
    # A unit less than the sum: rounding must not reach it, or a last weight of 0 could be drawn.
    chosen = _divided(drawn * (weights.sum(-1, keepdim=True) - 2.0**-n.fraction_bits))
    sums = weights.cumsum(-1)[..., :-1]
    return sums.unsqueeze(-2) <= chosen.unsqueeze(-1)


def _divided(x: Tensor) -> SecretTensor:
    """Returns x with no division pending."""
    assert isinstance(x, SecretTensor)
    return SecretTensor(x.numbers.settled(x.value), x.numbers)


def _marks(passed: Tensor, dtype: torch.dtype) -> Tensor:
    """Returns a 1 at each drawn place, and 0 elsewhere."""
    numbers = passed.to(dtype)
    end = torch.ones(*passed.shape[:-1], 1, dtype=dtype)
    return torch.cat([end, numbers], -1) - torch.cat([numbers, 0 * end], -1)


def multinomial(
    input: Tensor,
    num_samples: int,
    replacement: bool = False,
    *,
    generator: Any = None,
    plain: Any,
) -> Tensor:
    """As torch's function, which is `plain`, of secret weights; nobody knows the places."""
    if generator is not None:
        raise UnsupportedOp(
            "a generator of one party",
            limit="nobody knows the places that are drawn by secret weights",
            remedy="leave generator= out",
        )
    if input.dim() not in (1, 2) or not input.is_floating_point():
        raise ConfigError(
            f"weights of {input.dim()} dimensions and {input.dtype}", limit="1 or 2, of reals"
        )
    return weighted_places(input.detach(), num_samples, replacement=replacement)
