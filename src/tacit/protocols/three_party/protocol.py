"""What the protocols of three parties have in common: input, output, and clients."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from ..base import Protocol
from ..clients import from_client
from ..share import Arith, Bool
from ..steps import Interactive
from . import client, io


class ThreeParty(Protocol):
    """Three parties, each of which lacks one part of every secret."""

    form = "three parts"

    share = Interactive(io.share, Arith, owned=True)
    share_bits = Interactive(io.share_bits, Bool, owned=True)
    reveal = Interactive(io.reveal)
    random = Interactive(io.random, Arith)
    random_bits = Interactive(io.random_bits, Bool)
    refresh = Interactive(io.refresh)
    from_client = Interactive(from_client, Arith, owned=True)
    for_client = Interactive(client.for_client)

    @classmethod
    def parts_held(cls, parties: int) -> list[tuple[int, ...]]:
        return [io.holders(party) for party in range(parties)]

    @classmethod
    def client_senders(cls, parties: int) -> Sequence[int]:
        return (0, 1)

    @abstractmethod
    def input_roles(self, owner: int) -> tuple[int, int]:
        """Returns the party that draws one part of an input with its owner, and the one that
        receives the other part."""

    @abstractmethod
    def reveal_sender(self, receiver: int) -> int:
        """Returns the party that sends the part that a receiver lacks, in a reveal."""

    def sends_ahead(self, owner: int) -> bool:
        """Whether this owner's inputs are sent ahead: it never waits for an online message."""
        return False
