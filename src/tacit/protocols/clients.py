"""Clients outside the parties: they give secrets and get results without staying online.

A client splits x into the parts that the members of a session hold (`ProtocolCore.parts_held`). All
but one come from fresh seeds, which it sends to the members that hold them; the last, x minus
those, goes as ring elements to the members that hold it. A result comes back as ring elements that
add up to it. The caller provides the channels to clients; each message must reach only its member.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce

import torch
from torch import Tensor

from ..errors import ConfigError, Party, PreprocessingRejected, joined
from ..kernels import stream
from ..registry import PROTOCOLS
from ..ring import Ring, ring_of
from .core import ProtocolCore
from .share import Arith
from .steps import Steps

SEED_BYTES = 32


@dataclass(frozen=True)
class ClientInput:
    """What a client sends to one member: seeds and elements of the parts that this member holds."""

    shape: tuple[int, ...]
    bits: int
    seeds: Mapping[int, bytes] = field(repr=False)
    masked: Tensor | None = field(repr=False)


def split_input(value: Tensor, protocol: str = "trio", parties: int = 3) -> list[ClientInput]:
    """Returns the messages that together share ring elements, for each member by rank."""
    kind: type[ProtocolCore] = PROTOCOLS[protocol].load()
    ring, held, sent = ring_of(value), kind.parts_held(parties), kind.sent_part(parties)
    parts = sorted({part for member in held for part in member} - {sent})
    seeds = {part: secrets.token_bytes(SEED_BYTES) for part in parts}
    masked = reduce(torch.sub, (expand(seed, value.shape, ring) for seed in seeds.values()), value)
    return [
        ClientInput(
            shape=tuple(value.shape),
            bits=ring.bits,
            seeds={part: seed for part, seed in seeds.items() if part in member},
            masked=masked if sent in member else None,
        )
        for member in held
    ]


def expand(seed: bytes, shape: Sequence[int], ring: Ring) -> Tensor:
    """Returns the part that a seed stands for. Each seed is used for one tensor."""
    out = torch.empty(tuple(shape), dtype=ring.dtype)
    return stream(seed, out, operation=0, cipher="chacha20")


def from_client(p: ProtocolCore, message: ClientInput, *, limit: int | None = None) -> Steps[Arith]:
    """Returns the secret that a client split, from the message for this member. No round."""
    if p.context.blind:
        raise PreprocessingRejected(
            "the program takes inputs of clients outside",
            limit="their masks are the client's, so a dealer cannot deal before it has them",
            remedy="run this program with the dealer online",
        )
    if message.bits != p.ring.bits:
        raise ConfigError(
            f"from_client: a message of {message.bits} bits", limit=f"the ring has {p.ring.bits}"
        )
    expected = p.parts_held(p.parties)[p.rank]
    parts = {part: expand(seed, message.shape, p.ring) for part, seed in message.seeds.items()}
    if message.masked is not None:
        parts[p.sent_part(p.parties)] = message.masked
    shapes = {tuple(part.shape) for part in parts.values()}
    if parts.keys() != set(expected) or shapes != {message.shape} or _wrong_seed(message):
        raise ConfigError("this is not the message for " + Party(p.rank), subject="from_client")
    return Arith({part: parts[part].to(p.device) for part in expected}, p.ring, limit=limit)
    yield  # a generator that needs no round


def _wrong_seed(message: ClientInput) -> bool:
    return any(len(seed) != SEED_BYTES for seed in message.seeds.values())


def join_output(
    messages: Sequence[Tensor | None], protocol: str = "trio", parties: int = 3
) -> Tensor:
    """Returns the result, at the client, from the messages of all members, by rank."""
    kind: type[ProtocolCore] = PROTOCOLS[protocol].load()
    senders = kind.client_senders(parties)
    arrived = [messages[i] for i in senders if i < len(messages)]
    found = [message for message in arrived if message is not None]
    if len(found) != len(senders) or len({message.shape for message in found}) != 1:
        needed = joined(" and ", (Party(rank) for rank in senders))
        raise ConfigError("messages of " + needed + " are needed", subject="join_output")
    return kind.joined_output(found)
