"""What a party does at any moment, for whoever wants to know: it computes, sends or waits."""

from __future__ import annotations

from typing import Protocol


class ActivityWatcher(Protocol):
    """Is told by a mesh when a party begins to send or to wait, and when it goes on."""

    def leave_computing(self) -> None:
        """The party computed until now, and begins to send or to wait."""

    def note_sent(self) -> None:
        """The party sent until now. Tiles that are computed while they are sent come after."""

    def note_waited(self, last: int) -> None:
        """The party waited until now; the message of the peer `last` came last."""
