"""A round whose messages this party has sent, until it has taken what it receives in it."""

from __future__ import annotations

from collections.abc import Mapping

from .channel import Expected, Message, Peers
from .stats import Stats


class OpenRound:
    """What a round receives: expected at first, then here.

    wanted: what is expected of each peer, with the public record of when the round was begun.
    arrived: what has come. is_complete: whether that is all. early: what was here already while
    this party still sent. since: when this party began to wait, if it has.
    """

    __slots__ = (
        "_is_expected",
        "_waited",
        "ahead",
        "arrived",
        "channels",
        "early",
        "is_complete",
        "operation",
        "since",
        "wanted",
    )

    def __init__(
        self, operation: int, wanted: Mapping[int, Expected], channels: Peers, ahead: bool
    ) -> None:
        self.operation, self.wanted = operation, wanted
        self.channels, self.ahead = channels, ahead
        self.arrived: dict[int, Message] = {}
        self.early: dict[int, Message] = {}
        self.is_complete = not wanted
        self.since: float | None = None
        self._waited: dict[int, float] = {}
        self._is_expected = False

    def expect(self) -> None:
        """Prepares the channels for what the round receives, once."""
        if not self._is_expected:
            self._is_expected = True
            for peer, expected in self.wanted.items():
                self.channels[peer].expect(expected)

    def take_early(self) -> None:
        """Takes the messages that are here, without waiting."""
        self.expect()
        for peer in self.wanted.keys() - self.early.keys():
            if message := self.channels[peer].recv():
                self.early[peer] = message

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
