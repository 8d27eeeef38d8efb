"""The connected channels of one party, and where their tensors go."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

import torch

from .channel import Channel, Peers, Poller
from .devices import CPU
from .limits import Limits
from .local.barrier import Barrier
from .local.interpreter_lock import NO_LOCK, InterpreterLock
from .stats import Cost, Stats


class Connections:
    """The channels of a party, by peer; messages that are sent ahead may have others.

    device: where received tensors are put. barrier: of parties that are threads and share a GPU.
    interpreter: the lock of parties that are threads.
    """

    def __init__(
        self, rank: int, channels: Collection[Channel], poller: Poller, limits: Limits
    ) -> None:
        self.rank = rank
        self.parties = len(channels) + 1
        self.stats = Stats([channel.peer for channel in channels])
        self.device = CPU
        self.barrier: Barrier | None = None
        self.interpreter: InterpreterLock = NO_LOCK
        self._channels = Peers((channel.peer, channel) for channel in channels)
        self._ahead = self._channels  # those of messages that are sent ahead
        self._poller, self._limits = poller, limits

    def place(self, device: torch.device) -> None:
        """Sets the device on which received tensors are put from now on."""
        self.device = device
        for channel in (*self._channels.values(), *self._ahead.values()):
            channel.device = device

    def channel(self, peer: int) -> Channel:
        """Returns the channel to a peer."""
        return self._channels[peer]

    def attach(self, channel: Channel) -> None:
        """Adds a peer that is not connected: its messages come from a stored run."""
        self._channels[channel.peer] = channel
        self.parties += 1
        self.stats.peers[channel.peer] = Cost()

    def attach_ahead(self, channel: Channel) -> None:
        """Lets a stored run take the place of what a connected peer sends, or is sent, ahead."""
        self._ahead = Peers({**self._ahead, channel.peer: channel})

    @property
    def deals_offline(self) -> bool:
        """Whether what a connected dealer sends ahead is that of a stored run."""
        return self._ahead is not self._channels

    @property
    def has_stored_peers(self) -> bool:
        """Whether some messages are those of a stored run: from a peer that may not be there."""
        channels = (*self._channels.values(), *self._ahead.values())
        return any(channel.stored for channel in channels)

    @property
    def shares_memory(self) -> bool:
        """Whether a peer reads what is sent in this party's memory: a thread of its process."""
        return any(channel.shares_memory for channel in self._channels.values())

    @property
    def sends_in_background(self) -> bool:
        """Whether messages are on their way while this party computes the next thing."""
        return any(channel.in_background for channel in self._channels.values())

    def certificate_expires(self, peer: int) -> datetime | None:
        """Returns the end of validity of a peer's certificate; None without TLS."""
        return self._channels[peer].certificate_expires
