"""What leaves the three parties for a client: see `protocols/clients.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from ..share import Arith
from ..steps import Steps

if TYPE_CHECKING:
    from .protocol import ThreeParty


def for_client(p: ThreeParty, x: Arith) -> Steps[Tensor | None]:
    """Returns what this party sends to a client that may learn x: elements, or None. No round.

    Party 1 sends part 0, and party 0 sends the sum of parts 1 and 2; only the client has both. The
    parties compare their public records before, since the client cannot.
    """
    p.context.admit_client_reveal(x)
    x = yield from p.settled.steps(x)
    p.context.mesh.compare()
    if p.rank == 1:
        return x.parts[0].contiguous()
    return x.parts[1] + x.parts[2] if p.rank == 0 else None
