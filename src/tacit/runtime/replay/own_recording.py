"""A recording that each party makes of its own work, whatever the parties are connected by."""

from __future__ import annotations

from .recording import Party, Recording
from .told import text_of


class OwnRecording(Recording):
    """Parties decide on their own what is public, and tell each other the rest in messages."""

    @classmethod
    def decided(cls, session: Party, opinion: bool) -> bool:
        """What decides is public, so all parties decide alike; else their records differ."""
        return opinion

    @classmethod
    def gathered(cls, session: Party, text: str) -> list[str]:
        """The record has what everybody told: a party that tells two others two things is found."""
        mesh, own = session.mesh, text.encode()
        peers = [rank for rank in range(mesh.parties) if rank != mesh.rank]
        before = mesh.stats.snapshot()
        found = mesh.exchange_bytes(dict.fromkeys(peers, own), peers) | {mesh.rank: own}
        mesh.stats.take_back(before)  # no round of the function
        told = [text_of(rank, found[rank]) for rank in sorted(found)]
        session.protocol.context.record.absorb("repeated", told)
        return told
