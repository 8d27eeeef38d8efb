"""Messages that pass many times between the same two parties, from or to the same memory.

On a connection their heads are prepared once, and compiled code copies, encrypts and sends a short
one in one call, or receives, decrypts and copies it. Longer ones are copied, encrypted and sent by
the threads of the stripes. To the other side they are messages like all others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from torch import Tensor

from .frames import Layout

TAKEN, FOREIGN = -6, -7  # csrc/carrier.h, Status


class FixedMessage(Protocol):
    """The head of a message, and the addresses of its tensors (csrc/message.h)."""

    @property
    def size(self) -> int:
        """Its bytes, head included."""

    def encoded(self, operation: int, digest: bytes) -> bytes:
        """Returns its bytes as they are now."""


class FixedTensors(list[Tensor]):
    """Tensors whose memory stays where it is, as a message to or from one peer.

    What they hold is copied before a send returns. What is received is written to them.
    """

    def __init__(self, tensors: Sequence[Tensor], layout: Layout) -> None:
        super().__init__(tensors)
        self.layout = layout


class FramedTensors(FixedTensors):
    """Such tensors with what compiled code sends and receives them by."""

    def __init__(self, tensors: Sequence[Tensor], layout: Layout, message: FixedMessage) -> None:
        super().__init__(tensors, layout)
        self.message = message


class MessageCalls(Protocol):
    """What a session of TLS does with messages of this kind, if it can."""

    @property
    def carrier(self) -> Any:
        """The session itself, for compiled code."""

    def message(
        self, head: bytes, tensors: Sequence[Tensor], headers: Sequence[int]
    ) -> FixedMessage:
        """Returns a message for the calls below; its tensors must outlive it.

        headers: where headers begin in its head.
        """

    def send(self, message: FixedMessage, operation: int, digest: bytes) -> int:
        """Writes what the tensors hold now; returns how many bytes, if that is positive."""

    def receive(
        self,
        message: FixedMessage,
        operation: int,
        digest: bytes,
        buffer: memoryview,
        milliseconds: int,
    ) -> int:
        """Reads a message, which has space in the buffer, into its tensors; TAKEN: it is there.

        If another one comes, or not all of it, returns how many bytes are in the buffer, if that is
        positive.
        """

    def checked(self, result: int) -> int:
        """Returns 0 if the other side has ended; raises what another result of a call means."""
