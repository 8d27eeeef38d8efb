"""What each worker computes of one product a ⊗ b, which is bilinear (Goten, figure 3).

With shares a = a_0 + a_1 and b = b_0 + b_1, masks u and v, e = a - u and g = b - v:

    a ⊗ b = u ⊗ v + (a_0 ⊗ g + e ⊗ b_0) + (a_1 ⊗ g + e ⊗ b_1 - e ⊗ g)

Worker 2 draws u and v and returns the first term, worker 0 returns the second, worker 1 the third.
Each of them sees uniform numbers that do not depend on a and b: worker 2 sees u and v; worker 0
its shares, which are random, and e and g, whose masks it does not know; worker 1 a_1 and e, which
two independent words hide, and b_1 and g likewise. Worker 0 draws its shares from a key that it has
in common with the enclave, so that they are not sent. That is safe because it knows them anyway,
and no other worker has this key. Two workers together learn a and b.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import NamedTuple

from torch import Tensor

from ..protocols.products.bilinear import Bilinear

Pair = tuple[Tensor, Tensor]  # a left and a right operand


def _product(op: Bilinear, pairs: Sequence[Pair]) -> Tensor:
    [(u, v)] = pairs
    return op(u, v)


def _first_share(op: Bilinear, pairs: Sequence[Pair]) -> Tensor:
    (a, b), (e, g) = pairs
    return op.sum([(a, g), (e, b)])


def _second_share(op: Bilinear, pairs: Sequence[Pair]) -> Tensor:
    (a, b), (e, g) = pairs
    return op.sum([(a, g), (e, b - g)])


class Role(IntEnum):
    """What a worker does in a task; the number is that of the message."""

    MASK_PRODUCT = 1  # u ⊗ v
    FIRST_SHARE = 2  # a_0 ⊗ g + e ⊗ b_0
    SECOND_SHARE = 3  # a_1 ⊗ g + e ⊗ b_1 - e ⊗ g
    MASKED_PRODUCT = 4  # e ⊗ g


class Duty(NamedTuple):
    """How many pairs of operands a worker draws from its key and receives, and what it returns.

    `answer(op, pairs)` takes the drawn pairs, then those received.
    """

    num_drawn: int
    num_received: int
    answer: Callable[[Bilinear, Sequence[Pair]], Tensor]


DUTIES = {
    Role.MASK_PRODUCT: Duty(1, 0, _product),
    Role.FIRST_SHARE: Duty(1, 1, _first_share),
    Role.SECOND_SHARE: Duty(0, 2, _second_share),
    Role.MASKED_PRODUCT: Duty(0, 1, _product),
}
