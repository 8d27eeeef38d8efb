"""Random terms that add up to zero over all parties, from the keys that each two parties share."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .context import Context
from .randomness import common_stream, mask_stream


def zero_shared(
    context: Context, own: Tensor, use: str, parties: Sequence[int], *, bits: bool
) -> Tensor:
    """Returns this party's part plus its term of a fresh sharing of zero. No message.

    Each two parties draw words that only they know; the one of lower rank adds them, the other
    takes them away. The part goes nowhere before another mask hides it: see
    NOTE [one message for each mask].
    """
    own, rank = own.clone(memory_format=torch.contiguous_format), context.rank
    for other in parties:
        if other != rank:
            how = "xor" if bits else ("add" if rank < other else "sub")
            own = context.randomness.mask(common_stream(use, rank, other), own, how)
    return own


def hidden_part(
    context: Context,
    own: Tensor,
    use: str,
    senders: Sequence[int],
    receivers: Sequence[int],
    *,
    bits: bool,
) -> Tensor:
    """Returns this sender's part, hidden so that only the sum over all senders can be read off.

    Each two senders i, j draw words that only they know, r_ij for the messages of i and r_ji for
    those of j; i sends its part + r_ij - r_ji and j sends its part + r_ji - r_ij. Two senders to
    whom nobody else listens draw none: a receiver that learns the sum knows the other's part, too.
    """
    rank = context.rank
    listeners = {
        other: tuple(party for party in receivers if party not in (rank, other))
        for other in senders
        if other != rank
    }
    if not any(listeners.values()):
        return own.contiguous()
    own = own.clone(memory_format=torch.contiguous_format)
    for other, outside in listeners.items():
        if not outside:
            continue
        mine = mask_stream(use, rank, other, *outside)
        theirs = mask_stream(use, other, rank, *outside)
        own = context.randomness.mask(mine, own, "xor" if bits else "add")
        own = context.randomness.mask(theirs, own, "xor" if bits else "sub")
    return own
