"""Secrets from one form of share to another: parties share the parts that they hold, and add.

Every part of a secret is held by a party, the first of which gives it (`forms.givers`). A giver
adds up its parts and shares their sum, as any input; the inputs add up to the secret. So what
anybody receives is what it receives of inputs, under masks of this call.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING

import torch

from ..errors import ConfigError
from .forms import Held, givers
from .share import Arith, Bool, Parts
from .steps import Steps, together

if TYPE_CHECKING:
    from .base import Protocol


def from_parts(
    p: Protocol, parts: Parts, held: Held, shape: Sequence[int], *, limit: int | None = None
) -> Steps[Arith]:
    """Returns the secret of which the members hold `parts`, as `held` says by rank.

    The cost of an input of each giver, in as many rounds as one input takes.
    """
    own = {
        rank: reduce(torch.add, (parts[i] for i in given)) if rank == p.rank else None
        for rank, given in _givers(p, held).items()
    }
    inputs = yield from together(*(p.share.steps(own[rank], rank, shape) for rank in own))
    summed = {i: reduce(torch.add, (one.parts[i] for one in inputs)) for i in inputs[0].parts}
    return Arith(summed, p.ring, limit=limit)


def from_bit_parts(
    p: Protocol, parts: Parts, held: Held, shape: Sequence[int], width: int = 1
) -> Steps[Bool]:
    """Returns the secret bits of which the members hold `parts`. As `from_parts`."""
    own = {
        rank: reduce(torch.bitwise_xor, (parts[i] for i in given)) if rank == p.rank else None
        for rank, given in _givers(p, held).items()
    }
    inputs = yield from together(
        *(p.share_bits.steps(own[rank], rank, shape, width) for rank in own)
    )
    folded = {i: reduce(torch.bitwise_xor, (x.parts[i] for x in inputs)) for i in inputs[0].parts}
    return Bool(folded, shape)


def _givers(p: Protocol, held: Held) -> dict[int, list[int]]:
    found = givers(held, p.parties)
    if not found:
        raise ConfigError(
            "a secret of which the parties of this session do not hold every part",
            limit=f"the parties are 0 to {p.parties - 1}",
            remedy="convert it between sessions of the same parties, with a dealer or without",
        )
    return found


def convert(x: Arith | Bool, source: Protocol, target: Protocol) -> Arith | Bool:
    """Returns a secret of one protocol as a secret of another that has the same members.

    Local where both have the same form of share.
    """
    if isinstance(x, Arith):
        x = source.settled(x)
    if source.form == target.form:
        return x
    held = source.parts_held(source.parties)
    if isinstance(x, Arith):
        return target.from_parts(x.parts, held, x.shape, limit=x.limit)
    return target.from_bit_parts(x.parts, held, x.shape, x.width)
