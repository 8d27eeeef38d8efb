"""What all operations of a party share, in any role: channels, keys, ring, numbers of calls."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import torch
from torch import Tensor

from ..crypto import KeyRing
from ..ring import Ring
from ..transport import Mesh
from .products.executor import ProductExecutor
from .randomness import CallRandomness, DrawObserver, KeyStreams
from .reveals import RevealPolicy, party_names
from .share import Arith, Bool
from .steps import Group


class Context:
    """One party's connection to the others, and its count of calls, which is equal at all parties.

    randomness: that of the call that is running. group: the parallel block that collects calls, if
    any. draw_observer: a test that watches all draws.
    """

    randomness: CallRandomness

    def __init__(
        self,
        mesh: Mesh,
        keys: KeyRing,
        ring: Ring,
        *,
        cipher: str = "aes128-ctr",
        product_device: torch.device | None = None,
        memory_limit: int | None = None,
        reveal_policy: RevealPolicy | None = None,
    ) -> None:
        self.mesh, self.ring = mesh, ring
        self.rank, self.device = mesh.rank, mesh.device
        self.streams = KeyStreams(keys, cipher, mesh.device)
        self.memory_limit = memory_limit
        self.reveal_policy = reveal_policy or RevealPolicy(party_names(mesh.parties))
        self.group: Group | None = None
        self.draw_observer: DrawObserver | None = None
        offload = None if product_device == mesh.device else product_device
        self.products = ProductExecutor(mesh.device, memory_limit=memory_limit, offload=offload)
        self._number = 0

    @property
    def operation(self) -> int:
        """The operation, as messages carry it, of the call that began last."""
        return self._number << 16

    def new_number(self) -> int:
        """Returns the number of the next call."""
        self._number += 1
        return self._number

    def new_randomness(self) -> CallRandomness:
        """Returns the randomness of the next call."""
        return CallRandomness(self.streams, self.new_number(), self.draw_observer)

    def admit_reveal(self, x: Arith | Bool, to: int | None, dtype: torch.dtype | None) -> None:
        """Records a reveal of x to a party, or to all, or raises RevealForbidden."""
        operation = self.randomness.number << 16
        self.reveal_policy.admit(operation, x.shape, self._dtype_name(x, dtype), to)

    def admit_client_reveal(self, x: Arith) -> None:
        """Records a reveal of x to a client outside, or raises RevealForbidden."""
        operation = self.randomness.number << 16
        self.reveal_policy.admit_client(operation, x.shape, self._dtype_name(x, None))

    def _dtype_name(self, x: Arith | Bool, dtype: torch.dtype | None) -> str:
        default = torch.bool if isinstance(x, Bool) and x.width == 1 else self.ring.dtype
        return str(dtype or default).removeprefix("torch.")

    def draw(self, holders: Collection[int], shape: Sequence[int]) -> Tensor:
        """Returns ring elements that exactly the parties in `holders` know."""
        return self.randomness.draw(holders, shape, self.ring.dtype)

    def draw_planes(self, holders: Collection[int], shape: Sequence[int]) -> Tensor:
        """Returns planes of bits that exactly the parties in `holders` know."""
        return self.randomness.draw(holders, shape, torch.int64)
