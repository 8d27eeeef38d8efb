"""A round whose messages this party has sent, until it has taken what it receives in it."""

from __future__ import annotations

from collections.abc import Mapping

from .channel import Expected, Message, Peers
from .stats import Stats


class OpenRound:
    """What a round receives: expected at first, then here.

    wanted: what is expected of each peer, with the public record of when the round was begun.
    arrived: what has come. is_complete: whether that is all.
    """

    __slots__ = ("_waited", "ahead", "arrived", "channels", "is_complete", "operation", "wanted")

    def __init__(
        self, operation: int, wanted: Mapping[int, Expected], channels: Peers, ahead: bool
    ) -> None:
        self.operation, self.wanted = operation, wanted
        self.channels, self.ahead = channels, ahead
        self.arrived: dict[int, Message] = {}
        self.is_complete = not wanted
        self._waited: dict[int, float] = {}

    def add(self, peer: int, message: Message, seconds: float) -> None:
        """Notes a message that has come after so many seconds of waiting."""
        self.arrived[peer], self._waited[peer] = message, seconds

    def count(self, stats: Stats) -> None:
        """Adds what was received to the cost of the party."""
        for peer, message in self.arrived.items():
            if self.channels[peer].stored:
                stats.bytes_preprocessed += message.size
            else:
                stats.count_received(peer, message.size, self._waited[peer], self.ahead)
        stats.count_round(max(self._waited.values()), self.ahead)
