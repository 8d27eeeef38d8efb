"""Batch norms in eval mode: their owner shares scale and shift beside the statistics.

So the first inference costs what every other does. If statistics or weights change, what was shared
is not used any more: see `fixedpoint.norm.fixed_norm`.
"""

from __future__ import annotations

from typing import Any

from torch.nn.modules.batchnorm import _BatchNorm

from ..fixedpoint import Input, Numbers, Statistics, Value
from ..tensor import SecretTensor


def inputs_of(n: Numbers, norms: list[_BatchNorm], *, mine: bool) -> list[Input]:
    """Returns what their owner shares besides: three vectors for each."""
    return [one for part in norms for one in n.norm_inputs(_statistics(part), mine=mine)]


def _statistics(part: Any) -> Statistics:
    return Statistics(part.weight, part.bias, part.running_mean, part.running_var, part.eps)


def keep(n: Numbers, norms: list[_BatchNorm], made: list[Value]) -> None:
    """Notes the shared vectors beside the statistics, which are secret now."""
    for i, part in enumerate(norms):
        weight, bias, mean, variance = map(_value, _statistics(part)[:4])
        n.keep_shared_norm(made[3 * i : 3 * i + 3], weight, bias, mean, variance, part.eps)


def _value(tensor: Any) -> Any:
    return tensor.value if isinstance(tensor, SecretTensor) else None
