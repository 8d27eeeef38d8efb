"""Tensors that are sent while they are computed.

NOTE [tiles]
A product of large tensors takes long to compute and long to send. As a `Tiled` tensor it is both at
once: its rows are computed tile by tile, and the channel sends each tile in the background while
the next one is computed. In between the party takes what has arrived, so that its peers' tiles do
not wait either. To all others it is one message of a round: tensors, bytes, digest and cost are the
same, and the receiver need not know how the sender cuts. On a connection the first part has the
head of the message, and every other part a head without a table (`Kind.PART`). Between two parts
the sender computes, so it is waited for as before a message; see NOTE [slow or dead].
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from torch import Tensor

from .channel import PROGRESS_BYTES, Channel
from .wire.frames import Kind, plain

TILE_BYTES = 1 << 20  # of a tensor, computed and handed over at a time


class Tiled:
    """A tensor that is computed while it is sent.

    whole: its memory, contiguous; what is computed in it is never written again. computing: writes
    its rows, from the first on, and yields after each tile how many rows are computed.
    """

    def __init__(self, whole: Tensor, computing: Iterator[int]) -> None:
        self.whole, self._computing = whole, computing
        self.shape, self.dtype, self.nbytes = whole.shape, whole.dtype, whole.nbytes
        self.ready_bytes = 0  # from the first on

    @property
    def is_complete(self) -> bool:
        """Whether all rows are computed."""
        return self.ready_bytes == self.nbytes

    def compute_tile(self) -> None:
        """Computes the next tile."""
        self.ready_bytes = next(self._computing) * self.whole[0].nbytes


Sendable = Tensor | Tiled


def computed(x: Sendable) -> Tensor:
    """Returns the tensor, after computing what is left of it."""
    if not isinstance(x, Tiled):
        return x
    while not x.is_complete:
        x.compute_tile()
    return x.whole


def tiled_in(send: Mapping[int, Sequence[Sendable]]) -> list[Tiled]:
    """Returns the tiled tensors among what is sent, each once."""
    found = [x for tensors in send.values() for x in tensors if isinstance(x, Tiled)]
    return list(dict.fromkeys(found)) if found else found


class PartlySent:
    """A message to one peer, of which some tensors are still computed. size: its bytes."""

    def __init__(
        self,
        channel: Channel,
        kind: Kind,
        operation: int,
        digest: bytes,
        tensors: Sequence[Sendable],
    ) -> None:
        self._channel, self._head = channel, (kind, operation, digest)
        self._tensors = tensors
        self._plain = [x.whole if isinstance(x, Tiled) else plain(x) for x in tensors]
        self.size = sum(x.nbytes for x in self._plain)
        self._sent: int | None = None

    def send_ready(self) -> None:
        """Sends what is computed and not sent, unless that is very little and more will come."""
        ready, sent = self._ready_bytes(), self._sent or 0
        if self._sent == self.size or ready < min(sent + PROGRESS_BYTES, self.size):
            return
        self._channel.send_part(*self._head, self._plain, sent, ready)
        self._sent = ready

    def _ready_bytes(self) -> int:
        total = 0
        for x in self._tensors:
            if isinstance(x, Tiled) and not x.is_complete:
                return total + x.ready_bytes
            total += x.nbytes
        return total


def send_tiles(
    tiled: Sequence[Tiled], messages: Sequence[PartlySent], in_between: Callable[[], None]
) -> None:
    """Computes tiles, sends each at once in the messages that have it, and then looks around."""
    for message in messages:
        message.send_ready()
    for one in tiled:
        while not one.is_complete:
            one.compute_tile()
            for message in messages:
                message.send_ready()
            in_between()
