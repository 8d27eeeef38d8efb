"""How the interactive pieces talk: one call of an `Exchange` is one round of messages."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from ..errors import Party, ProtocolError

# Sends each peer its message and returns one message from each of the named peers.
Exchange = Callable[[Mapping[int, bytes], Collection[int]], dict[int, bytes]]


def others(rank: int, parties: int) -> list[int]:
    """Every party but this one."""
    return [party for party in range(parties) if party != rank]


def check_size(message: bytes, size: int, *, party: int, what: str) -> None:
    """Refuses a message that cannot be what it should be."""
    if len(message) != size:
        raise ProtocolError(
            Party(party)
            + (
                f" sent {len(message)} bytes as {what}, which has {size}: it does not "
                "run this version of the protocol, or deviates from it"
            ),
            party=party,
        )
