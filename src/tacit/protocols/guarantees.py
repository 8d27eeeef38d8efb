"""What a protocol promises, and against whom: the facts that documents and summaries tell."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Promise:
    """colluding: how many parties may pool all that they see and still learn no secret.

    detects: whether a party that deviates from the protocol is caught, rather than able to make
    results wrong unseen.
    """

    colluding: int
    detects: bool = False

    @property
    def private(self) -> bool:
        """Whether anything is hidden from anybody."""
        return self.colluding > 0


NOTHING = Promise(colluding=0)
