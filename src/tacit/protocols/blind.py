"""What a reveal returns while a run is preprocessed: nothing is opened.

NOTE [blind]: in a rehearsal, and while a dealer makes stored runs, a program runs without results.
A reveal sends nothing and returns zeros, and a guard finds nothing out of range, so whatever the
inputs are, nobody learns anything. What a dealer sends must not depend on revealed values, so a
program that shows them to the dealer is refused. One that uses them otherwise has another public
record in the run with real values, and is refused there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..errors import PreprocessingRejected
from .share import Arith, Bool
from .steps import PASS, Steps

if TYPE_CHECKING:
    from .context import Context
    from .core import ProtocolCore


def unopened(
    p: ProtocolCore, x: Arith | Bool, to: int | None, *, to_dealer: bool
) -> Steps[Tensor | None]:
    """Returns zeros in the form of the secret, None at members that would not learn it. 1 round."""
    guards = p.context.reveal_policy.is_guarding
    if to_dealer and not guards:
        raise PreprocessingRejected(
            "the program shows revealed values to the dealer",
            limit="what a dealer sends in a stored run is made before there are any values",
            remedy="run this program with the dealer online, or reveal without to_dealer=True",
        )
    yield PASS
    if p.rank >= p.parties or to not in (None, p.rank):
        return None
    if isinstance(x, Arith):
        return torch.zeros(x.shape, dtype=p.ring.dtype)
    dtype = torch.bool if x.width == 1 else torch.int64
    return torch.full(x.shape, guards, dtype=dtype)


def refuse_saving(context: Context) -> None:
    """Raises PreprocessingRejected, while a run is preprocessed, for a program that saves shares.

    A dealer would have to save its part in every run, also in those that it takes no part in.
    """
    if context.blind:
        raise PreprocessingRejected(
            "the program saves shares",
            limit="in a stored run the dealer is not there to save its part of them",
            remedy="save in a run with the dealer online; a stored run can load what was saved",
        )
