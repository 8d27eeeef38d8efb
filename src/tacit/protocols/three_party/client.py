"""Clients outside the three parties: they give secrets and get results without staying online.

A client splits x into three parts. Two come from fresh seeds, each of which it sends to the two
parties that hold the part; the third, x minus those, goes to the parties that hold it: two elements
and four seeds. A result goes back as one part from party 1 and the sum of the two others from party
0. The caller provides the channels to clients; each message must reach only its party.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ...errors import ConfigError, Party
from ...kernels import stream
from ...ring import Ring, ring_of
from ..share import Arith
from ..steps import Steps
from .io import PARTIES, holders

if TYPE_CHECKING:
    from .protocol import ThreeParty

SEED_BYTES = 32
MASKED = 0  # the part that a client sends as ring elements


@dataclass(frozen=True)
class ClientInput:
    """What a client sends to one party: seeds and elements of the parts that this party holds."""

    shape: tuple[int, ...]
    bits: int
    seeds: Mapping[int, bytes] = field(repr=False)
    masked: Tensor | None = field(repr=False)


def split_input(value: Tensor) -> list[ClientInput]:
    """Returns the messages for parties 0, 1 and 2 that together share ring elements."""
    ring = ring_of(value)
    seeds = {part: secrets.token_bytes(SEED_BYTES) for part in PARTIES if part != MASKED}
    drawn = [_expand(seed, value.shape, ring) for seed in seeds.values()]
    masked = reduce(torch.sub, drawn, value)
    return [
        ClientInput(
            shape=tuple(value.shape),
            bits=ring.bits,
            seeds={part: seed for part, seed in seeds.items() if part != party},
            masked=masked if party in holders(MASKED) else None,
        )
        for party in PARTIES
    ]


def _expand(seed: bytes, shape: Sequence[int], ring: Ring) -> Tensor:
    """The part that a seed stands for. Each seed is used for one tensor."""
    out = torch.empty(tuple(shape), dtype=ring.dtype)
    return stream(seed, out, operation=0, cipher="chacha20")


def from_client(p: ThreeParty, message: ClientInput, *, limit: int | None = None) -> Steps[Arith]:
    """Returns the secret that a client split, from the message for this party. No round."""
    if message.bits != p.ring.bits:
        raise ConfigError(
            f"from_client: a message of {message.bits} bits", limit=f"the ring has {p.ring.bits}"
        )
    parts = {part: _expand(seed, message.shape, p.ring) for part, seed in message.seeds.items()}
    if message.masked is not None:
        parts[MASKED] = message.masked
    parts = {i: part.to(p.device) for i, part in parts.items()}
    expected = set(holders(p.rank))
    shapes = {tuple(part.shape) for part in parts.values()}
    if parts.keys() != expected or shapes != {message.shape} or _wrong_seed(message):
        raise ConfigError("this is not the message for " + Party(p.rank), subject="from_client")
    return Arith({part: parts[part] for part in holders(p.rank)}, p.ring, limit=limit)
    yield  # a generator that needs no round


def _wrong_seed(message: ClientInput) -> bool:
    return any(len(seed) != SEED_BYTES for seed in message.seeds.values())


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


def join_output(messages: Sequence[Tensor | None]) -> Tensor:
    """Returns the result, at the client, from the messages of the parties."""
    arrived = [message for message in messages if message is not None]
    if len(arrived) != 2 or arrived[0].shape != arrived[1].shape:
        raise ConfigError(
            "a message of party 0 and one of party 1 are needed", subject="join_output"
        )
    return arrived[0] + arrived[1]
