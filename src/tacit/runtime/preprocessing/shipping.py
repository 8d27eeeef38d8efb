"""Frames of a stored run on their way from the dealer to a party, in pieces."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import torch

from ...errors import FrameRejected, Party
from ...transport import Mesh, Spec

PIECE = 1 << 22
_HEAD = struct.Struct("<I?")


class Shipment:
    """At the dealer: collects the frames for one party, and sends them piece by piece."""

    def __init__(self, mesh: Mesh, peer: int, run: int) -> None:
        self._mesh, self._peer, self._run = mesh, peer, run
        self._waiting = bytearray()

    def __call__(self, data: bytes | memoryview) -> None:
        """Adds bytes."""
        for start in range(0, len(data), PIECE):
            self._waiting += data[start : start + PIECE]
            if len(self._waiting) >= PIECE:
                self._send(PIECE, last=False)

    def end(self) -> None:
        """Sends what is left."""
        self._send(len(self._waiting), last=True)

    def _send(self, size: int, *, last: bool) -> None:
        piece = torch.frombuffer(self._waiting[:size] or bytearray(1), dtype=torch.uint8)[:size]
        del self._waiting[:size]
        head = {self._peer: _HEAD.pack(size, last)}
        self._mesh.exchange_bytes(head, [], operation=self._run)
        self._mesh.exchange({self._peer: [piece]}, {}, operation=self._run)


def arriving(mesh: Mesh, dealer: int, run: int) -> Iterator[bytes]:
    """Yields, at a party, the pieces of a stored run."""
    last = False
    while not last:
        head = mesh.exchange_bytes({}, [dealer], operation=run)[dealer]
        if len(head) != _HEAD.size:
            raise FrameRejected(Party(dealer) + " sent no piece of a stored run", party=dealer)
        size, last = _HEAD.unpack(head)
        if size > PIECE:
            raise FrameRejected(Party(dealer) + f" sends a piece of {size} bytes", party=dealer)
        received = mesh.exchange({}, {dealer: [Spec((size,), torch.uint8)]}, operation=run)
        yield received[dealer][0].cpu().numpy().tobytes()
