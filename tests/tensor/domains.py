"""On which samples an operator has to be right: the domain of fixed point.

The database draws numbers without regard to fixed point. These rules say what is asked:
1. Inputs are rounded to multiples of 2^-f first, so that what is compared is the operation.
2. Inputs and results are finite and below 2^14 in magnitude. Of operators that work element by
   element, the elements whose results are that are compared; the tangent's up to 2^9.
3. What is random is compared only where nothing is drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_map

LARGEST = 2.0**14
POLES = {"tan": 2.0**9}


def snapped(values: Any, session: Any) -> Any:
    """The nest with its floating tensors rounded to multiples of 2^-f."""
    unit = 2.0**session.config.fraction_bits

    def snap(x: Any) -> Any:
        if not isinstance(x, Tensor) or not x.is_floating_point():
            return x
        return ((x.detach() * unit).round() / unit).requires_grad_(x.requires_grad)

    return tree_map(snap, values)


def in_domain(name: str, values: Any, results: Any) -> bool:
    """Whether the operator has to be right on this sample: (input, args, kwargs)."""
    tensors = [x for x in tree_flatten((values, results))[0] if isinstance(x, Tensor)]
    if not all(_small(x) for x in tensors):
        return False
    rule = RULES.get(name)
    return rule is None or rule(*values)


def comparable(name: str, want: Any) -> Any:
    """The nest of an elementwise operator's results, with those outside the domain not a number."""
    end = POLES.get(name, LARGEST)

    def masked(x: Any) -> Any:
        if not isinstance(x, Tensor) or not x.is_floating_point():
            return x
        return torch.where(x.detach().abs() < end, x.detach(), torch.nan)

    return tree_map(masked, want)


def _small(x: Tensor) -> bool:
    if not x.is_floating_point() or not x.numel():
        return True
    return bool((x.detach().abs() < LARGEST).all())


def _nothing_drawn(first: Any, args: Any, kwargs: Any) -> bool:
    """Secret masks are drawn from other streams than torch's."""
    training = kwargs.get("training", True)
    return not training or kwargs.get("p", kwargs.get("dropout_p", 0.5)) in (0.0, 1.0)


Rule = Callable[[Any, Any, Any], bool]

RULES: dict[str, Rule] = {
    **dict.fromkeys(
        [
            "nn.functional.dropout",
            "nn.functional.dropout2d",
            "nn.functional.dropout3d",
            "nn.functional.alpha_dropout",
            "nn.functional.feature_alpha_dropout/with_train",
            "nn.functional.scaled_dot_product_attention",
        ],
        _nothing_drawn,
    ),
    "nn.functional.multi_head_attention_forward": lambda first, args, kwargs: (
        not kwargs["training"] or args[9] == 0.0
    ),
}
