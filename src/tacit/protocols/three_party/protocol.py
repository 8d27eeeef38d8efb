"""What the protocols of three parties have in common: input, output, and clients."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence

from ..base import Protocol
from ..clients import from_client
from ..forms import THREE_PARTS, Held, held_parts
from ..share import Arith, Bool
from ..steps import Interactive
from . import io


class ThreeParty(Protocol):
    """Three parties, each of which lacks one part of every secret.

    input_roles: by the rank of its owner, how an input is shared.
    """

    form = THREE_PARTS
    input_roles: Mapping[int, io.InputRoles]

    share = Interactive(io.share, Arith, owned=True)
    share_bits = Interactive(io.share_bits, Bool, owned=True)
    reveal = Interactive(io.reveal)
    random = Interactive(io.random, Arith)
    random_bits = Interactive(io.random_bits, Bool)
    refresh = Interactive(io.refresh)
    from_client = Interactive(from_client, Arith, owned=True)
    for_client = Interactive(io.for_client)

    @classmethod
    def parts_held(cls, parties: int) -> Held:
        return held_parts(THREE_PARTS, parties) or ()

    @classmethod
    def client_senders(cls, parties: int) -> Sequence[int]:
        return (0, 1)

    @abstractmethod
    def reveal_sender(self, receiver: int) -> int:
        """Returns the party that sends the part that a receiver lacks, in a reveal."""
