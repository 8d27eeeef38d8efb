"""Operations of an enclave that are computed in one pass with those before them.

Each rule returns None where that is not possible, and torch's own operation runs then. See
`protocols/unfinished.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..fixedpoint import PlainNumbers, Value
from ..kernels.activations import max_pool2x2
from ..protocols.unfinished import Places, UnfinishedGradient, UnfinishedProduct

aten = torch.ops.aten


def relu(n: PlainNumbers, self: Value) -> Value | None:
    """The ReLU of a product, which waits with it."""
    made = self.share.with_relu() if isinstance(self.share, UnfinishedProduct) else None
    return Value(made, self.dtype) if made else None


def max_pool2d_with_indices(
    n: PlainNumbers, self: Value, *window: Any, **named: Any
) -> tuple[Value, Value] | None:
    """The largest numbers of 2 x 2 windows, and their places."""
    if not _is_2x2(n, self, *window, **named) or not n.tensor(self).is_contiguous():
        return None
    made = max_pool2x2(n.tensor(self))
    return n.value(made.values), Value(Places(made), made.places.dtype)


def max_pool2d_with_indices_backward(
    n: PlainNumbers, grad_output: Value, self: Value, *window: Any, **named: Any
) -> Value | None:
    """The gradient by the input of max-pooling, which waits for that of ReLU."""
    indices = named.get("indices", window[-1] if window else None)
    if not isinstance(indices, Value) or not isinstance(indices.share, Places):
        return None
    grad = UnfinishedGradient(n.tensor(grad_output), n.tensor(self), indices.share)
    return Value(grad, grad_output.dtype)


def threshold_backward(
    n: PlainNumbers, grad_output: Value, self: Value, threshold: float
) -> Value | None:
    """The gradient by the input of ReLU, if max-pooling follows it: from that of the windows."""
    if threshold != 0 or not isinstance(self, Value) or not isinstance(grad_output, Value):
        return None
    share = grad_output.share
    made = share.through_relu(n.tensor(self)) if isinstance(share, UnfinishedGradient) else None
    return None if made is None else n.value(made)


def _is_2x2(
    n: PlainNumbers,
    x: Value,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: bool = False,
) -> bool:
    """Whether windows are 2 x 2 and side by side, in a memory whose tensors are always there."""
    has_kernel = n.protocol.is_enclave and n.protocol.memory.limit is None
    is_image = isinstance(x, Value) and x.dtype == torch.float32 and len(x.shape) in (3, 4)
    sizes = {*kernel_size, *stride, *(2 + one for one in padding), *(1 + one for one in dilation)}
    return has_kernel and is_image and min(x.shape[-2:]) > 1 and sizes == {2} and not ceil_mode


FUSED: dict[Any, Callable[..., Any]] = {
    aten.relu.default: relu,
    aten.max_pool2d_with_indices.default: max_pool2d_with_indices,
    aten.max_pool2d_with_indices_backward.default: max_pool2d_with_indices_backward,
    aten.threshold_backward.default: threshold_backward,
}
