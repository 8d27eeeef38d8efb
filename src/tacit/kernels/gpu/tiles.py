"""Tuples of tensors as one tensor with a last dimension more, and back."""

import triton
import triton.language as tl


@triton.jit
def join(x):
    """The tensors of a tuple side by side: index i of the last dimension is x[i]."""
    tl.static_assert(len(x) == 16 or len(x) == 8 or len(x) == 4)
    count: tl.constexpr = len(x)
    shape: tl.constexpr = x[0].shape
    for level in tl.static_range(4):
        if (count >> level) > 1:
            pairs = ()
            for i in tl.static_range(count >> (level + 1)):
                pairs += (tl.join(x[i], x[i + (count >> (level + 1))]),)
            x = pairs
    return x[0].reshape(shape + (count,))  # noqa: RUF005


@triton.jit
def split(x):
    """The tuple of the tensors at the indices of the last dimension."""
    count: tl.constexpr = x.shape[len(x.shape) - 1]
    parts = (x,)
    for level in tl.static_range(4):
        if (count >> level) > 1:
            even = ()
            odd = ()
            for i in tl.static_range(1 << level):
                low, high = tl.split(_pairs(parts[i]))
                even += (low,)
                odd += (high,)
            parts = even + odd
    return parts


@triton.jit
def _pairs(x):
    """The tensor with its last dimension cut in pairs; of two elements they are the dimension."""
    if x.shape[len(x.shape) - 1] > 2:
        x = x.reshape(x.shape[0], x.shape[1], x.shape[2] // 2, 2)
    return x
