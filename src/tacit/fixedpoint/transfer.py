"""Many tensors into secrets and back, in few messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..kernels import pack_bits
from ..protocols import Arith, Bool
from ..protocols.steps import Steps, drive, together
from .debug import check
from .encoding import cap, decode, encode
from .value import Value

if TYPE_CHECKING:
    from .numbers import Numbers

# Of one message: the transport's table of tensors is short, and both ends hold it in memory.
MOST_TENSORS = 256
MOST_ELEMENTS = 1 << 23


@dataclass(frozen=True)
class Input:
    """A tensor to be shared; only its owner has the values. `path` is its name in errors."""

    shape: torch.Size
    dtype: torch.dtype
    values: Tensor | None
    path: str = "the tensor"


def share_many(n: Numbers, inputs: Sequence[Input], owner: int) -> list[Value]:
    """All inputs of one owner as secrets. A round, or none if the owner deals, for each batch."""
    made: list[Value] = []
    for batch in _batches([one.shape.numel() for one in inputs]):
        chosen = inputs[batch]
        with n.protocol.parallel():
            shares = [_shared(n, one, owner) for one in chosen]
        made += [_value(n, s, one.dtype) for s, one in zip(shares, chosen, strict=True)]
    if n.debug:
        for value, one in zip(made, inputs, strict=True):
            check(n, value, f"share: {one.path}")
    return made


def _shared(n: Numbers, one: Input, owner: int) -> Arith | Bool:
    if one.dtype == torch.bool:
        planes = None if one.values is None else pack_bits(one.values).unsqueeze(0)
        return n.protocol.share_bits(planes, owner, one.shape)
    bits = n.bits_of(one.dtype)
    elements = None if one.values is None else encode(n, one.values, bits)
    return n.protocol.share(elements, owner, one.shape)


def _value(n: Numbers, share: Arith | Bool, dtype: torch.dtype) -> Value:
    return Value(cap(n, share) if isinstance(share, Arith) else share, dtype)


def reveal_many(n: Numbers, values: Sequence[Value], to: int | None = None) -> list[Tensor | None]:
    """All of them opened at every party, or at party `to`. One round for each batch."""
    opened: list[Tensor | None] = []
    for batch in _batches([value.shape.numel() for value in values]):
        calls: list[Steps[Tensor | None]] = [
            n.protocol.reveal.steps(value.share, to, dtype=value.dtype) for value in values[batch]
        ]
        opened += drive(n.protocol.context, together(*calls))
    return [
        None if elements is None else decode(n, elements, value.dtype)
        for elements, value in zip(opened, values, strict=True)
    ]


def _batches(sizes: Sequence[int]) -> Iterator[slice]:
    """Consecutive tensors that go into one message."""
    start, elements = 0, 0
    for i, size in enumerate(sizes):
        if i > start and (elements + size > MOST_ELEMENTS or i - start == MOST_TENSORS):
            yield slice(start, i)
            start, elements = i, 0
        elements += size
    if sizes:
        yield slice(start, len(sizes))
