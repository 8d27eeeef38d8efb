"""The messages of interactive functions: one call of an `Exchange` is one round."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from ..errors import Party, ProtocolError

# Sends each peer its message and returns one message from each of the named peers.
Exchange = Callable[[Mapping[int, bytes], Collection[int]], dict[int, bytes]]


def others(rank: int, parties: int) -> list[int]:
    """Returns the ranks of all parties but this one."""
    return [party for party in range(parties) if party != rank]


def check_size(message: bytes, size: int, *, party: int, what: str) -> None:
    """Raises ProtocolError for a message of a wrong size."""
    if len(message) != size:
        raise ProtocolError(
            Party(party)
            + (
                f" sent {len(message)} bytes as {what}, which has {size}: it does not "
                "run this version of the protocol, or deviates from it"
            ),
            party=party,
        )
