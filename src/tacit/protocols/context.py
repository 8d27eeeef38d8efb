"""What all operations of a party share, in whatever role: channels, keys, ring, numbering."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import torch
from torch import Tensor

from ..crypto import KeyRing
from ..ring import Ring
from ..transport import CPU, Mesh
from .memo import Memo, default_budget
from .steps import Group
from .tape import Source, Tape, Watch


class Context:
    """One party's connection to the others and its count of calls, which all parties share."""

    tape: Tape  # of the call that is running

    def __init__(
        self,
        mesh: Mesh,
        keys: KeyRing,
        ring: Ring,
        *,
        cipher: str = "aes128-ctr",
        products: torch.device = CPU,
        memory_limit: int | None = None,
    ) -> None:
        self.mesh, self.ring = mesh, ring
        self.rank, self.device = mesh.rank, mesh.device
        self._source = Source(keys, cipher, mesh.device)
        self.memory_limit = memory_limit
        self.group: Group | None = None
        self.watch: Watch | None = None
        self.memo = Memo(
            default_budget(products),
            limit=memory_limit,
            away=None if products == mesh.device else products,
        )
        self._number = 0

    def new_number(self) -> int:
        self._number += 1
        return self._number

    def new_tape(self) -> Tape:
        return Tape(self._source, self.new_number(), self.watch)

    def draw(self, holders: Collection[int], shape: Sequence[int]) -> Tensor:
        """Ring elements that the parties in `holders` draw alike."""
        return self.tape.draw(holders, shape, self.ring.dtype)

    def draw_planes(self, holders: Collection[int], shape: Sequence[int]) -> Tensor:
        """Planes of bits that the parties in `holders` draw alike."""
        return self.tape.draw(holders, shape, torch.int64)
