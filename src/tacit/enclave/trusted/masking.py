"""What the enclave sends to the workers for one product, and what it computes itself."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

from torch import Tensor

from ...protocols.products.bilinear import Bilinear
from ...ring import ring_of
from ...transport import CPU
from ..mask_keys import MaskKey
from ..messages import Task
from ..worker import answered
from ..worker_roles import Pair, Role

# The roles of the workers 0, 1, ... in each mode.
MODES: dict[str, tuple[Role, ...]] = {
    "three-server": (Role.FIRST_SHARE, Role.SECOND_SHARE, Role.MASK_PRODUCT),
    "two-server": (Role.FIRST_SHARE, Role.SECOND_SHARE),
    "one-worker": (Role.MASKED_PRODUCT,),
    "none": (),
}


class MaskKeys(NamedTuple):
    """The keys of a session: `shares` draws a_0 and b_0, and `masks` draws u and v."""

    shares: MaskKey
    masks: MaskKey

    def of(self, role: Role) -> MaskKey | None:
        """Returns the key that a worker of this role gets."""
        return {Role.FIRST_SHARE: self.shares, Role.MASK_PRODUCT: self.masks}.get(role)


class MaskedProduct:
    """One product a ⊗ b of ring tensors, hidden from its workers by the pairs of its number."""

    def __init__(self, keys: MaskKeys, number: int, op: Bilinear, a: Tensor, b: Tensor) -> None:
        self.number, self.op, self.a, self.b = number, op, a, b
        self._keys = keys

    def task(self, role: Role) -> Task:
        """Returns the description of a worker's part."""
        shapes = tuple(self.a.shape), tuple(self.b.shape)
        return Task(self.number, role, self.op, ring_of(self.a, self.b), *shapes)

    def sent(self, role: Role) -> Sequence[Tensor]:
        """Returns the tensors that a worker receives."""
        if role is Role.MASK_PRODUCT:
            return ()
        if role is Role.SECOND_SHARE:
            return (*self._keys.shares.subtracted(self.number, self.a, self.b), *self._masked)
        return self._masked

    @cached_property
    def _masked(self) -> Pair:
        """e = a - u and g = b - v."""
        return self._keys.masks.subtracted(self.number, self.a, self.b)

    def computed_inside(self, roles: Sequence[Role]) -> Tensor | None:
        """Returns the terms of a ⊗ b that no worker computes; None if the workers do all.

        Without worker 2 it is u ⊗ v. With one worker, which returns e ⊗ g, it is u ⊗ b + e ⊗ v:
        two products instead of one, so that one worker alone saves the enclave nothing.
        """
        if Role.MASK_PRODUCT in roles:
            return None
        shapes = tuple(self.a.shape), tuple(self.b.shape)
        u, v = self._keys.masks.pair(self.number, shapes, self.a.dtype, CPU)
        if Role.FIRST_SHARE in roles:
            return self.op(u, v)
        return self.op.sum([(u, self.b), (self._masked[0], v)])

    def expected(self, role: Role) -> Tensor:
        """Returns the answer of an honest worker."""
        return answered(self.task(role), list(self.sent(role)), self._keys.of(role), CPU)
