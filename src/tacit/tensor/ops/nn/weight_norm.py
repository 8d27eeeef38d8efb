"""Weight normalisation: a direction and a length for each row of a weight."""

from __future__ import annotations

import torch

from ....fixedpoint import Numbers, Operand, Value
from ...table import implements

aten = torch.ops.aten


@implements(aten._weight_norm_interface.default)
def weight_norm_interface(n: Numbers, v: Operand, g: Operand, dim: int = 0) -> tuple[Value, Value]:
    """v g / |v|, and |v|, over all dimensions but `dim`."""
    v = n.settled(n.operand(v))
    norms = n.settled(n.vector_norm(v, _others(v, dim), keepdim=True))
    return n.mul(v, n.settled(n.div(g, norms, positive=True))), norms


@implements(aten._weight_norm_interface_backward.default)
def weight_norm_interface_backward(
    n: Numbers, grad_w: Operand, saved_v: Operand, saved_g: Operand, saved_norms: Value, dim: int
) -> tuple[Value, Value]:
    """The gradients by v, which leaves out what is along v, and by g."""
    grad, v, norms = (n.settled(n.operand(x)) for x in (grad_w, saved_v, saved_norms))
    along = n.total(n.mul(grad, v), _others(v, dim), keepdim=True)
    by_g = n.settled(n.div(along, norms, positive=True))
    across = n.sub(grad, n.mul(v, n.settled(n.div(by_g, norms, positive=True))))
    return n.mul(across, n.settled(n.div(saved_g, norms, positive=True))), by_g


def _others(x: Value, dim: int) -> list[int]:
    count = len(x.shape)
    return [one for one in range(count) if one != dim % count]
