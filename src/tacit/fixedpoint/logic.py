"""Truth values: and, or, xor, not. A number is true unless it is 0."""

from __future__ import annotations

import torch
from torch import Tensor

from ..kernels import pack_bits
from ..protocols import Bool
from .format import Format
from .value import Operand, Value, convert


def truth(n: Format, x: Value) -> Bool:
    """Returns [x != 0] as bits. Local for bits, one `is_zero` for numbers."""
    return convert(n, x, torch.bool).bits


def logical_not(n: Format, x: Value) -> Value:
    """Returns [x = 0]. Local for bits."""
    return Value(n.protocol.bit_not(truth(n, x)), torch.bool)


def logical_and(n: Format, a: Operand, b: Operand) -> Value:
    """Returns [a and b]. 1 round for two secrets, local with a public operand."""
    x, y = _both(n, a, b)
    p = n.protocol
    return Value(p.bit_and(x, y) if isinstance(y, Bool) else p.bit_and_public(x, y), torch.bool)


def logical_xor(n: Format, a: Operand, b: Operand) -> Value:
    """Returns [either a or b]. Local."""
    x, y = _both(n, a, b)
    p = n.protocol
    return Value(p.bit_xor(x, y) if isinstance(y, Bool) else p.bit_xor_public(x, y), torch.bool)


def logical_or(n: Format, a: Operand, b: Operand) -> Value:
    """Returns [a or b], which is not (not a and not b)."""
    inverted = [
        logical_not(n, x) if isinstance(x, Value) else torch.as_tensor(x) == 0 for x in (a, b)
    ]
    return logical_not(n, logical_and(n, inverted[0], inverted[1]))


def _both(n: Format, a: Operand, b: Operand) -> tuple[Bool, Bool | Tensor]:
    """Returns the bits of two operands in one shape; a public one, as packed words, is second."""
    if not isinstance(a, Value):
        a, b = b, a
    assert isinstance(a, Value)
    x = truth(n, a)
    other = b.shape if isinstance(b, Value | Tensor) else torch.Size()
    shape = torch._C._infer_size(x.shape, other)
    x = x if x.shape == shape else x.expand(*shape)
    if isinstance(b, Value):
        y = truth(n, b)
        return x, y if y.shape == shape else y.expand(*shape)
    return x, pack_bits((torch.as_tensor(b) != 0).expand(shape)).unsqueeze(0)
