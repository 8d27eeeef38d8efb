"""Elements moved, joined and replaced at public places: local where nothing is pending."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..kernels import pack_bits, unpack_bits
from ..protocols import Arith, Bool
from .arithmetic import convert
from .dtypes import result_dtype
from .encoding import cap
from .value import Operand, Value

if TYPE_CHECKING:
    from .numbers import Numbers

Change = Callable[[list[Tensor]], Tensor]


def joined(n: Numbers, operands: Sequence[Operand], change: Change, *, adds: bool = False) -> Value:
    """One value made of the elements of several, by a function of the list of a part of each.

    The function moves elements, and with `adds` it may add them. Bits stay bits. Local.
    """
    dtype = result_dtype(*operands)
    values = [convert(n, n.operand(x), dtype) for x in operands]
    if dtype == torch.bool:
        return Value(_joined_bits([x.bits for x in values], change), dtype)
    shares = alike(n, [x.arith for x in values])
    limits = [share.limit for share in shares]
    parts = {i: change([share.parts[i] for share in shares]) for i in shares[0].parts}
    limit = sum(limits) * _times(shares) if adds else max(limits)
    return Value(cap(n, shares[0].with_parts(parts, limit=limit)), dtype)


def _times(shares: Sequence[Arith]) -> int:
    return max(max(share.numel for share in shares), 1)


def _joined_bits(shares: Sequence[Bool], change: Change) -> Bool:
    parts = {}
    for i in shares[0].parts:
        bits = [unpack_bits(share.parts[i][0], share.shape, torch.uint8) for share in shares]
        parts[i] = change(bits)
    shape = next(iter(parts.values())).shape
    return Bool({i: pack_bits(bits).unsqueeze(0) for i, bits in parts.items()}, shape)


def alike(n: Numbers, shares: Sequence[Arith]) -> list[Arith]:
    """The shares with the same division pending and the same parts at this party."""
    common = shares[0]
    for share in shares[1:]:
        common, _ = n.protocol.alike(common, share)
    return [n.protocol.alike(share, common)[0] for share in shares]


def replaced(n: Numbers, whole: Value, take: Callable[[Value], Value], value: Value) -> Value:
    """`whole` with the part of it that `take` takes replaced by `value` of its dtype. Local.

    `take` is a view: it is taken of a copy, and written through.
    """
    if isinstance(whole.share, Bool):
        return _replaced_bits(n, whole.share, take, value.bits)
    share, new = alike(n, [whole.arith, value.arith])
    parts = {
        i: part.clone(memory_format=torch.contiguous_format) for i, part in share.parts.items()
    }
    copy = Value(share.with_parts(parts, limit=max(share.limit, new.limit)), whole.dtype)
    for i, part in take(copy).arith.parts.items():
        part.copy_(new.parts[i])
    return copy


def _replaced_bits(n: Numbers, whole: Bool, take: Callable[[Value], Value], value: Bool) -> Value:
    """The same for bits, unpacked so that a view of them can be written."""
    parts = {i: unpack_bits(part[0], whole.shape, torch.uint8) for i, part in whole.parts.items()}
    view = take(Value(Arith(parts, n.ring), torch.int64)).arith
    for i, part in view.parts.items():
        part.copy_(unpack_bits(value.parts[i][0], value.shape, torch.uint8))
    packed = {i: pack_bits(part).unsqueeze(0) for i, part in parts.items()}
    return Value(Bool(packed, whole.shape), torch.bool)
