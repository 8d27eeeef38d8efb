"""The contract of a channel: one peer, messages in order, an end that both sides learn of.

A mesh drives its channels from one thread. It sends without waiting, calls `recv` until a message
is complete, and sleeps on the channels' `Poller` in between. Every implementation:

- keeps the order of messages to one peer, and checks each against what the receiver expects, the
  digest first (`check_digest`);
- bounds what waits to be sent, and every wait, by the `Limits`;
- carries the peer's last word, a goodbye or an abort, past any data that is still on its way;
- is never used again after a failure.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

import torch
from torch import Tensor

from ..errors import (
    CheatingDetected,
    ConfigError,
    FrameRejected,
    Operation,
    Party,
    PeerClosed,
    ProtocolDesync,
    PublicMismatch,
    RangeError,
    RevealForbidden,
)
from .devices import CPU
from .limits import Limits
from .public_record import Excerpt
from .shaping import Wire
from .wire.fixed_message import FixedTensors
from .wire.frames import NO_DIGEST, SHORT_TENSOR_BYTES, Kind, Layout, Spec, describe

REASON_LENGTH = 80
CONNECTION_LOST = "connection lost"  # the reasons of one that cannot say so itself
NO_HEARTBEAT = "no heartbeat"
_SAME_EVERYWHERE: dict[str, type[RevealForbidden | RangeError | CheatingDetected]] = {
    kind.__name__: kind for kind in (RevealForbidden, RangeError, CheatingDetected)
}
PROGRESS_BYTES = 1 << 14  # what must pass within a deadline while a message or part is on its way
LOOK_AROUND_SECONDS = 0.25


class Expected(NamedTuple):
    """The message that a receiver waits for; without a layout it is bytes of any length.

    digest: of the receiver's public record, which has to be the sender's. into: memory of the host
    that a channel may read its tensors into.
    """

    kind: Kind
    operation: int
    layout: Layout | None
    digest: bytes = NO_DIGEST
    into: Sequence[Tensor] | None = None


class Message(NamedTuple):
    """A message that has arrived.

    stamps: on a shaped link, when its sender sent each part (`Wire.stamp`), and the part's bytes.
    """

    tensors: list[Tensor]
    size: int
    stamps: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Abort:
    """Why a run ends: the party at fault, its operation, and an exception's type name.

    The reason also names the workers of an enclave that are at fault, if any.
    After a public mismatch the origin is the party whose message or goodbye showed it.
    """

    origin: int
    operation: int
    reason: str
    record: Excerpt | None = None  # of the teller's public operations, after a public mismatch

    def __post_init__(self) -> None:
        reason = re.sub(r"[^\w .:-]", "?", self.reason[:REASON_LENGTH])
        object.__setattr__(self, "reason", reason)

    def error(self, teller: int) -> PeerClosed | RevealForbidden | RangeError | CheatingDetected:
        """Returns the error to raise where the party `teller` reported this abort.

        Every party raises RevealForbidden for a reveal that the policy forbids, RangeError for a
        number of one party that is out of range (its class and position stay at its owner), and
        CheatingDetected for what one party has noticed.
        """
        kind = _SAME_EVERYWHERE.get(self.reason.partition(":")[0], PeerClosed)
        gone = self.reason in (CONNECTION_LOST, NO_HEARTBEAT)
        return kind(
            Party(self.origin) + (" was given up" if gone else " ended the run"),
            party=self.origin,
            operation=self.operation,
            cause=self.reason if teller == self.origin else f"{self.reason}, says " + Party(teller),
        )


class Goodbye(NamedTuple):
    """The last word of a peer whose program is complete, with its public record.

    sent: how many messages it has sent to the party that hears this, where the goodbye may overtake
    them.
    """

    digest: bytes = NO_DIGEST
    record: Excerpt | None = None
    sent: int = 0


LastWord = Abort | Goodbye


class Channel(ABC):
    """One peer of a mesh.

    `progress` is the time of the last part of a message, `heard` of the last sign of life, and
    `stuck` says whether the peer waits too, see NOTE [slow or dead]. While a send or a flush waits,
    the channel calls `look_around` now and then, which raises if the run has ended. `is_stuck` says
    whether this party is stuck itself. `stored`: the messages are those of a stored run, and cost
    nothing now. `shares_memory`: the peer reads what is sent in this party's memory.
    `in_background`: a message is on its way while this party computes the next thing.
    """

    peer: int
    stored: bool = False
    shares_memory: bool = False
    in_background: bool = False
    device: torch.device = CPU  # where received tensors are put
    wire: Wire  # of the messages that come
    certificate_expires: datetime | None = None
    progress: float = 0.0
    heard: float = 0.0
    stuck: bool = False
    look_around: Callable[[], None]
    is_stuck: Callable[[], bool]

    @property
    def longest_fixed(self) -> int:
        """Up to so many bytes, messages of `fixed` are faster than ordinary ones."""
        return SHORT_TENSOR_BYTES

    def fixed(self, tensors: Sequence[Tensor]) -> FixedTensors | None:
        """Returns a message for tensors whose memory stays, to send it or to receive into it.

        None if this channel has no faster way for these than its ordinary messages.
        """
        return None

    @abstractmethod
    def send(self, kind: Kind, operation: int, digest: bytes, tensors: Sequence[Tensor]) -> int:
        """Queues a message and returns its size in bytes; blocks while too much is queued."""

    def send_fixed(self, message: FixedTensors, operation: int, digest: bytes) -> None:
        """Sends a message that `fixed` has returned, as `send` does."""
        self.send(Kind.TENSORS, operation, digest, message)

    def is_owed(self) -> bool:
        """Whether the peer has said goodbye and messages of it are still on their way."""
        return False

    def receive_fixed(self, message: FixedTensors, operation: int, digest: bytes) -> bool:
        """Returns whether the next message is this one, and is in its tensors after a short wait.

        If not, `expect` and `recv` receive it.
        """
        return False

    def send_part(
        self,
        kind: Kind,
        operation: int,
        digest: bytes,
        tensors: Sequence[Tensor],
        start: int,
        end: int,
    ) -> None:
        """Queues bytes [start, end) of a message whose other bytes may not be computed yet.

        The tensors are plain. Parts come in order, and nothing else is sent before the last one.
        Only the first part waits for space. A channel that sends messages as a whole waits for the
        last part.
        """
        if end == sum(tensor.nbytes for tensor in tensors):
            self.send(kind, operation, digest, tensors)

    def has_space(self, size: int) -> bool:
        """Returns whether a message of so many bytes is queued at once; else a send waits."""
        return True

    @abstractmethod
    def expect(self, expected: Expected) -> None:
        """Prepares for the next message; the following calls of `recv` return it."""

    @abstractmethod
    def recv(self, *, patient: bool = False) -> Message | None:
        """Returns the expected message, None while incomplete; a patient call may wait a bit."""

    def in_message(self) -> bool:
        """Returns whether a part of the expected message has arrived."""
        return False

    @abstractmethod
    def flush(self) -> None:
        """Waits until everything sent has left this party."""

    @abstractmethod
    def settle(self) -> None:
        """After a flush, waits until everything sent has reached the peer's machine."""

    @abstractmethod
    def check(self) -> None:
        """Raises an error of the background, or PeerTimeout if the peer takes nothing."""

    @abstractmethod
    def last_word(self, seconds: float = 0.0) -> LastWord | None:
        """Returns what the peer said when it ended; waits for it at most so long."""

    @abstractmethod
    def say(self, word: LastWord) -> None:
        """Tells the peer why this party ends: best effort, at once, past queued messages."""

    @abstractmethod
    def release(self) -> None:
        """Frees threads and sockets, whatever state they are in."""


class Peers(dict[int, Channel]):
    """Channels by rank; another rank is a ConfigError."""

    def __missing__(self, peer: int) -> Channel:
        raise ConfigError(f"there is no peer {peer} to talk to", limit=f"peers are {sorted(self)}")


class Poller(ABC):
    """What the thread of a mesh sleeps on until a peer has news."""

    @abstractmethod
    def wait(self, peers: Collection[int], seconds: float) -> Collection[int]:
        """Sleeps until one of `peers` has sent something or any peer has ended.

        Returns the peers that have ended since the last call; their `last_word` says how.
        """


def check_size(size: int, *, kind: int, peer: int, limits: Limits) -> None:
    """Raises FrameRejected for a message over the limit of its kind, before memory is allocated."""
    name = "max_setup_bytes" if kind == Kind.BYTES else "max_message_bytes"
    cap = getattr(limits, name)
    if size > cap:
        raise FrameRejected(
            Party(peer) + f" sends {size} bytes, over the limit {name} = {cap}", party=peer
        )


def check_digest(digest: bytes, expected: Expected, *, peer: int) -> None:
    """Raises PublicMismatch for a message of a party whose public record is another."""
    if digest != expected.digest:
        raise PublicMismatch(Party(peer) + " differs in public operands or operations", party=peer)


def desync(
    expected: Expected, *, party: int, peer: int, kind: int, operation: int, specs: Sequence[Spec]
) -> ProtocolDesync:
    """Returns the error of a party that expected one message and received another."""
    if operation != expected.operation:
        what = Party(peer) + " is at " + Operation(operation)
        what += ", " + Party(party) + " at " + Operation(expected.operation)
    else:
        ours = describe(expected.layout.specs) if expected.layout else "bytes"
        theirs = "bytes" if kind == Kind.BYTES else describe(specs)
        what = "at " + Operation(operation) + " " + Party(peer) + f" sent {theirs}, "
        what += Party(party) + f" expected {ours}"
    return ProtocolDesync(
        what,
        remedy="the parties must run the same program",
        party=peer,
        operation=expected.operation,
    )
