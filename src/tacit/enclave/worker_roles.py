"""What each worker computes of one product a ⊗ b, which is bilinear.

With masks u = u_0 + u_1 and v = v_0 + v_1, e = a - u and g = b - v:

    a ⊗ b = u ⊗ v + (u_0 ⊗ g + e ⊗ (v_0 + g)) + (u_1 ⊗ g + e ⊗ v_1)

Worker 2 returns the first term, worker 0 the second, worker 1 the third. Parts of masks are drawn
from keys that the enclave shares with workers, and are not sent: worker 0 has the key of u_0 and
v_0, worker 1 that of u_1 and v_1, and worker 2 both. Only e and g are sent, to workers 0 and 1.

Each of them sees uniform numbers that do not depend on a and b: worker 2 sees the masks alone, and
e is hidden from worker 0 by u_1 and from worker 1 by u_0. Two workers together learn a and b. These
are the roles, the assumption and the answers of Goten's three servers (Ng et al., 2021, figure 3).
There shares of a and b are sent beside e and g, three words for each number instead of two; here
the masks are shared, which need not be sent.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import NamedTuple

from torch import Tensor

from ..protocols.products.bilinear import Bilinear


class Parts(NamedTuple):
    """What a worker has of an operand: its part of the mask, and the masked operand.

    One of them is an empty tensor if the role does not need it.
    """

    mask: Tensor
    masked: Tensor


def _mask_product(op: Bilinear, a: Parts, b: Parts) -> Tensor:
    return op(a.mask, b.mask)


def _first_terms(op: Bilinear, a: Parts, b: Parts) -> Tensor:
    return op.sum([(a.mask, b.masked), (a.masked, b.mask + b.masked)])


def _second_terms(op: Bilinear, a: Parts, b: Parts) -> Tensor:
    return op.sum([(a.mask, b.masked), (a.masked, b.mask)])


def _masked_product(op: Bilinear, a: Parts, b: Parts) -> Tensor:
    return op(a.masked, b.masked)


class Role(IntEnum):
    """What a worker does in all its tasks; the number is that of the message."""

    MASK_PRODUCT = 1  # u ⊗ v
    FIRST_TERMS = 2  # u_0 ⊗ g + e ⊗ (v_0 + g)
    SECOND_TERMS = 3  # u_1 ⊗ g + e ⊗ v_1
    MASKED_PRODUCT = 4  # e ⊗ g


class Duty(NamedTuple):
    """The parts of masks that a worker draws, whether it receives operands, and its answer."""

    mask_parts: tuple[int, ...]
    receives: bool
    answer: Callable[[Bilinear, Parts, Parts], Tensor]


DUTIES = {
    Role.MASK_PRODUCT: Duty((0, 1), False, _mask_product),
    Role.FIRST_TERMS: Duty((0,), True, _first_terms),
    Role.SECOND_TERMS: Duty((1,), True, _second_terms),
    Role.MASKED_PRODUCT: Duty((), True, _masked_product),
}
