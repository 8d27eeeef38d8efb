"""On which samples an operator has to be right: the domain of fixed point.

The database draws numbers without regard to fixed point. These rules say what is asked:
1. Inputs are rounded to multiples of 2^-f first, so that what is compared is the operation.
2. Inputs and results are finite and below 2^14 in magnitude.
3. Rules by operator below, for poles and for intermediate results.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_map

LARGEST = 2.0**14


def snapped(values: Any, session: Any) -> Any:
    """The nest with its floating tensors rounded to multiples of 2^-f."""
    unit = 2.0**session.config.fraction_bits

    def snap(x: Any) -> Any:
        if not isinstance(x, Tensor) or not x.is_floating_point():
            return x
        return ((x.detach() * unit).round() / unit).requires_grad_(x.requires_grad)

    return tree_map(snap, values)


def in_domain(name: str, inputs: list[Tensor], results: Any) -> bool:
    """Whether the operator has to be right on this sample."""
    tensors = [x for x in tree_flatten((inputs, results))[0] if isinstance(x, Tensor)]
    if not all(_small(x) for x in tensors):
        return False
    rule = RULES.get(name)
    return rule is None or not inputs or rule(inputs)


def _small(x: Tensor) -> bool:
    if not x.is_floating_point() or not x.numel():
        return True
    return bool((x.detach().abs() < LARGEST).all())


RULES: dict[str, Any] = {}
