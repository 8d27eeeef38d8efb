"""What the enclave sends to the workers for one product, and what it computes itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from ...config import VISIBLE_WEIGHTS
from ...protocols.products.bilinear import Bilinear
from ...ring import Ring
from ...transport import CPU
from .. import messages
from ..mask_keys import MaskKeys
from ..messages import Task
from ..worker_roles import DUTIES, Parts, Role

NUM_MASK_PARTS = 2

# The roles of the workers 0, 1, ... in each mode.
MODES: dict[str, tuple[Role, ...]] = {
    "three-server": (Role.FIRST_TERMS, Role.SECOND_TERMS, Role.MASK_PRODUCT),
    "two-server": (Role.FIRST_TERMS, Role.SECOND_TERMS),
    "one-worker": (Role.MASKED_PRODUCT,),
    VISIBLE_WEIGHTS: (Role.MASKED_PRODUCT,),
    "none": (),
}


@dataclass
class Operand:
    """Integers of an operand, and the number that its mask depends on.

    `is_sent`: whether the workers have it. `masked` is kept until they do.
    """

    number: int
    values: Tensor
    exponent: int
    is_sent: bool = False
    masked: Tensor | None = None


class MaskedProduct:
    """One product a ⊗ b of integers, hidden from its workers by masks of its operands."""

    def __init__(
        self,
        keys: MaskKeys,
        ring: Ring,
        number: int,
        op: Bilinear,
        a: Operand,
        b: Operand,
        *,
        pins_memory: bool = False,
    ) -> None:
        self.number, self.op, self.a, self.b = number, op, a, b
        self._keys, self._ring, self._pins_memory = keys, ring, pins_memory

    def task(self, role: Role, forgotten: Sequence[int] = ()) -> Task:
        """Returns the description of a worker's part."""
        a = messages.Operand(self.a.number, tuple(self.a.values.shape), not self.a.is_sent)
        is_new = not self.b.is_sent and self.b is not self.a
        b = messages.Operand(self.b.number, tuple(self.b.values.shape), is_new)
        return Task(self.number, role, self.op, self._ring, a, b, tuple(forgotten))

    def sent(self, role: Role) -> list[Tensor]:
        """Returns the tensors that a worker receives, those of `task`."""
        own = {self.a.number: self.a, self.b.number: self.b}
        return [self._masked(own[operand.number]) for operand in self.task(role).sent]

    def _masked(self, x: Operand) -> Tensor:
        """e = a - u."""
        if x.masked is None:
            dtype, pinned = self._ring.dtype, self._pins_memory
            x.masked = self._keys.masked(x.number, x.values, dtype, pinned=pinned)
        return x.masked

    def mark_sent(self) -> None:
        """Notes that all workers have both operands."""
        for x in (self.a, self.b):
            x.is_sent, x.masked = True, None

    def computed_inside(self, roles: Sequence[Role]) -> Tensor | None:
        """Returns the terms of a ⊗ b that no worker computes; None if the workers do all.

        Without worker 2 it is u ⊗ v. With one worker, which returns e ⊗ g, it is u ⊗ b + e ⊗ v:
        two products instead of one, so that one worker alone saves the enclave nothing.
        """
        if Role.MASK_PRODUCT in roles:
            return None
        u, v = (
            self._keys.mask(x.number, x.values.shape, self._ring.dtype, CPU)
            for x in (self.a, self.b)
        )
        if Role.FIRST_TERMS in roles:
            return self.op(u, v)
        a, b = (x.values.to(self._ring.dtype) for x in (self.a, self.b))
        return self.op.sum([(u, b), (a - u, v)])

    def expected(self, role: Role) -> Tensor:
        """Returns the answer of an honest worker."""
        duty, dtype = DUTIES[role], self._ring.dtype
        own = self._keys.some(duty.mask_parts)
        a, b = (
            Parts(own.mask(x.number, x.values.shape, dtype, CPU), self._masked(x))
            for x in (self.a, self.b)
        )
        return duty.answer(self.op, a, b)
