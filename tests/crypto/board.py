"""Parties as threads whose messages a test can read and change on their way."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any

from tacit.crypto import Exchange

# (round, sender, receiver, message) -> message
Tamper = Callable[[int, int, int, bytes], bytes]


class Gone(Exception):
    """The peer has ended."""


class Board:
    def __init__(self, parties: int, tamper: Tamper | None = None) -> None:
        self.parties = parties
        self.log: list[tuple[int, int, int, bytes]] = []
        self._tamper = tamper or (lambda _round, _sender, _receiver, message: message)
        self._queues = {
            (a, b): SimpleQueue[bytes | None]() for a in range(parties) for b in range(parties)
        }

    def exchange_of(self, rank: int) -> Exchange:
        rounds = 0

        def exchange(send: Mapping[int, bytes], receive: Collection[int]) -> dict[int, bytes]:
            nonlocal rounds
            for peer, message in send.items():
                self.log.append((rounds, rank, peer, message))
                self._queues[rank, peer].put(self._tamper(rounds, rank, peer, message))
            rounds += 1
            return {peer: self._take(peer, rank) for peer in receive}

        return exchange

    def _take(self, sender: int, receiver: int) -> bytes:
        message = self._queues[sender, receiver].get(timeout=600)
        if message is None:
            raise Gone(f"party {sender} ended")
        return message

    def _party(self, function: Callable[..., Any], rank: int) -> Any:
        try:
            return function(self.exchange_of(rank), rank=rank, parties=self.parties)
        except Exception as error:
            return error
        finally:
            for peer in range(self.parties):
                self._queues[rank, peer].put(None)

    def run(self, function: Callable[..., Any]) -> list[Any]:
        """Each party's result of `function(exchange, rank=, parties=)`, or its exception."""
        with ThreadPoolExecutor(self.parties) as pool:
            return list(pool.map(lambda rank: self._party(function, rank), range(self.parties)))


def flip(message: bytes, index: int) -> bytes:
    """The message with one bit of one byte changed."""
    return message[:index] + bytes([message[index] ^ 1]) + message[index + 1 :]
