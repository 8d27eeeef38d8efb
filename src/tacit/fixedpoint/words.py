"""Words of random bits, such as hashes, shared and compared as they are; and bits of integers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import torch
from torch import Tensor

from ..protocols.steps import drive
from .format import Format
from .transfer import absorb_shares
from .value import Value


def share_words(n: Format, words: Tensor | None, owner: int, shape: Sequence[int]) -> Value:
    """Returns the owner's words as a secret; no range is theirs. 1 round, or none of a dealer."""
    absorb_shares(n, owner, [(shape, torch.int64)])
    elements = None if words is None else words.to(n.ring.dtype)
    call = n.protocol.share.steps(elements, owner, torch.Size(shape))
    return Value(drive(n.protocol.context, call), torch.int64)


def equal_words(n: Format, a: Value, b: Value, bits: int) -> Value:
    """Returns [a = b] for tensors (..., words) of words in [0, 2^bits), with broadcasting.

    The dimension of words is the last one; all of them have to be equal. The rounds of `is_zero`,
    and those of an AND if there are several words.
    """
    p = n.protocol
    difference = p.sub(a.arith, b.arith).promise((1 << bits) - 1)
    words = [difference[..., i] for i in range(difference.shape[-1])]
    with p.parallel():
        same = [p.is_zero(word) for word in words]
    return Value(reduce(p.bit_and, same), torch.bool)


def bits_of_integers(n: Format, x: Value, count: int) -> list[Value]:
    """Returns the lowest bits of integers >= 0, the lowest first. r rounds.

    Bit i of x is the sign of x 2^(k - 1 - i) in a ring of k bits.
    """
    p, top = n.protocol, n.ring.bits - 1
    scaled = [x.arith.scaled(1 << (top - i)) for i in range(count)]
    with p.parallel():
        signs = [p.sign(one) for one in scaled]
    return [Value(sign, torch.bool) for sign in signs]
