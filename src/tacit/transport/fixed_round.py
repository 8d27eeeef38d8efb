"""A round that passes many times, from and to the same memory: all its messages are fixed ones.

What is the same every time is prepared once. A message that does not come as it should, or not
soon, is received like those of any other round, with the same checks and errors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from torch import Tensor

from .channel import Channel, Expected, Message, Peers
from .open_round import OpenRound
from .stats import Stats
from .wire.fixed_message import FixedTensors
from .wire.frames import NO_DIGEST, Kind


class FixedPart(NamedTuple):
    """What a round sends to one peer, or receives from it."""

    peer: int
    channel: Channel
    message: FixedTensors
    size: int  # of its tensors


class FixedRound(OpenRound):
    """What one round sends and receives. It is open from `reopen` until all of that is here."""

    __slots__ = ("_digest", "incoming", "outgoing")

    def __init__(
        self,
        channels: Peers,
        send: Mapping[int, FixedTensors],
        receive: Mapping[int, FixedTensors],
        *,
        ahead: bool,
    ) -> None:
        super().__init__(0, _expected(receive, 0, NO_DIGEST), channels, ahead)
        self.outgoing, self.incoming = (
            [FixedPart(peer, channels[peer], x, x.layout.size) for peer, x in messages.items()]
            for messages in (send, receive)
        )

    def reopen(self, operation: int, digest: bytes) -> None:
        """Begins the round once more. digest: of this party's public record now."""
        self.operation, self._digest = operation, digest
        self.arrived, self.early = {}, {}
        self.is_complete = not self.incoming
        self.since, self._is_expected = None, False

    def expect(self) -> None:
        places = {part.peer: part.message for part in self.incoming}
        self.wanted = _expected(places, self.operation, self._digest)
        super().expect()

    @property
    def awaited(self) -> int:
        """The peer whose message is missing, or was taken last."""
        missing = (part.peer for part in self.incoming if part.peer not in self.arrived)
        return next(missing, self.incoming[-1].peer)

    def take_at_once(self, now: Callable[[], float]) -> None:
        """Takes what is received, as far as it comes soon; `is_complete` tells if that is all."""
        self.since = started = now()
        for place, (peer, channel, message, _) in enumerate(self.incoming):
            if not channel.receive_fixed(message, self.operation, self._digest):
                taken = self.incoming[:place]
                self.early = {one.peer: Message(one.message, one.size) for one in taken}
                return
            self._waited[peer] = now() - started
        self.is_complete = True

    def count_at_once(self, stats: Stats) -> None:
        """Adds what was received to the cost of the party, if all came at once."""
        seconds = 0.0
        for peer, _, _, size in self.incoming:
            seconds = self._waited[peer]  # those before have waited less
            stats.count_received(peer, size, seconds, self.ahead)
        stats.count_round(seconds, self.ahead)


def fixed_round(
    channels: Peers,
    send: Mapping[int, Sequence[Tensor]],
    receive: Mapping[int, Sequence[Tensor]],
    *,
    ahead: bool,
) -> FixedRound | None:
    """Returns a round of tensors whose memory stays; None if a channel has no fast way for it."""
    sent, received = (_fixed(channels, tensors) for tensors in (send, receive))
    if len(sent) < len(send) or len(received) < len(receive):
        return None
    return FixedRound(channels, sent, received, ahead=ahead)


def _fixed(channels: Peers, tensors: Mapping[int, Sequence[Tensor]]) -> dict[int, FixedTensors]:
    made = {peer: channels[peer].fixed(xs) for peer, xs in tensors.items()}
    return {peer: one for peer, one in made.items() if one is not None}


def _expected(
    receive: Mapping[int, FixedTensors], operation: int, digest: bytes
) -> dict[int, Expected]:
    return {
        peer: Expected(Kind.TENSORS, operation, one.layout, digest, [*one])
        for peer, one in receive.items()
    }
