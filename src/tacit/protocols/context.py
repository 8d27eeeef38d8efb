"""What all operations of a party share, in whatever role: channels, keys, ring, numbering."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import torch
from torch import Tensor

from ..crypto import KeyRing
from ..ring import Ring
from ..transport import Mesh
from .products.executor import ProductExecutor
from .randomness import Source, Tape, Watch
from .reveals import Openings, party_names
from .share import Arith, Bool
from .steps import Group


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
        product_device: torch.device | None = None,
        memory_limit: int | None = None,
        openings: Openings | None = None,
    ) -> None:
        self.mesh, self.ring = mesh, ring
        self.rank, self.device = mesh.rank, mesh.device
        self.source = Source(keys, cipher, mesh.device)
        self.memory_limit = memory_limit
        self.openings = openings or Openings(party_names(mesh.parties))
        self.group: Group | None = None
        self.watch: Watch | None = None
        offload = None if product_device == mesh.device else product_device
        self.products = ProductExecutor(mesh.device, memory_limit=memory_limit, offload=offload)
        self._number = 0

    @property
    def operation(self) -> int:
        """The number, as messages have it, of the call that began last."""
        return self._number << 16

    def new_number(self) -> int:
        self._number += 1
        return self._number

    def new_tape(self) -> Tape:
        return Tape(self.source, self.new_number(), self.watch)

    def admit(self, x: Arith | Bool, to: int | None, dtype: torch.dtype | None) -> None:
        """Asks whether x may be opened to a party, or to all, and records it."""
        self.openings.admit(self.tape.number << 16, x.shape, self._called(x, dtype), to)

    def admit_client(self, x: Arith) -> None:
        """Asks whether x may be opened to somebody outside, and records it."""
        self.openings.admit_client(self.tape.number << 16, x.shape, self._called(x, None))

    def _called(self, x: Arith | Bool, dtype: torch.dtype | None) -> str:
        kind = torch.bool if isinstance(x, Bool) and x.width == 1 else self.ring.dtype
        return str(dtype or kind).removeprefix("torch.")

    def draw(self, holders: Collection[int], shape: Sequence[int]) -> Tensor:
        """Ring elements that the parties in `holders` draw alike."""
        return self.tape.draw(holders, shape, self.ring.dtype)

    def draw_planes(self, holders: Collection[int], shape: Sequence[int]) -> Tensor:
        """Planes of bits that the parties in `holders` draw alike."""
        return self.tape.draw(holders, shape, torch.int64)
