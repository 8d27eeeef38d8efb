"""What leaves the parties for a client: see `protocols/clients.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from ..share import Arith
from ..steps import Steps
from .io import hidden_mask

if TYPE_CHECKING:
    from .protocol import Additive


def for_client(p: Additive, x: Arith) -> Steps[Tensor | None]:
    """Returns what this member sends to a client that may learn x: elements, or None. No round.

    Every party sends its mask, hidden as in a reveal, and the leader adds m; the dealer sends
    nothing.
    """
    p.context.admit_client_reveal(x)
    x = yield from p.settled.steps(x)
    if p.is_dealer:
        return None
    own = hidden_mask(p, x, p.roles.evaluators)
    return own + p.opened(x) if p.is_leader else own
