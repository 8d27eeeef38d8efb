"""What communication costs: bytes, messages, rounds and waiting, in total, per peer, per scope."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass


@dataclass(slots=True)
class Cost:
    """Communication of this party. Bytes are those of the tensors, without headers.

    A round is one exchange that receives something. Waiting is the time from the last send of an
    exchange until all that it receives is here.
    """

    bytes_sent: int = 0
    bytes_received: int = 0
    messages_sent: int = 0
    rounds: int = 0
    seconds_waiting: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    def __sub__(self, other: Cost) -> Cost:
        return Cost(*(a - b for a, b in zip(astuple(self), astuple(other), strict=True)))

    def assign(self, other: Cost) -> None:
        for name in self.__slots__:
            setattr(self, name, getattr(other, name))


class Stats(Cost):
    """The cost of a mesh so far; `peers[rank]` is the part of one peer. Only transport writes it.

    Time spent waiting for several peers at once counts once in the total.
    """

    def __init__(self, peers: list[int]) -> None:
        super().__init__()
        self.peers = {peer: Cost() for peer in peers}
        self.scopes: dict[str, Cost] = {}
        self._path: list[str] = []

    @contextmanager
    def scope(self, name: str) -> Iterator[Cost]:
        """What is spent inside, complete when the scope ends; an inner scope is part of its outer.

        `scopes` adds up the scopes of the same name, inner ones as "outer/inner".
        """
        cost, before = Cost(), self.total()
        self._path.append(name)
        path = "/".join(self._path)
        try:
            yield cost
        finally:
            self._path.pop()
            cost.assign(self.total() - before)
            self.scopes[path] = self.scopes.get(path, Cost()) + cost

    def total(self) -> Cost:
        """A copy of the cost so far."""
        return Cost(*(getattr(self, name) for name in Cost.__slots__))

    def count_sent(self, peer: int, size: int) -> None:
        cost = self.peers[peer]
        cost.bytes_sent += size
        cost.messages_sent += 1
        self.bytes_sent += size
        self.messages_sent += 1

    def count_received(self, peer: int, size: int, seconds: float) -> None:
        cost = self.peers[peer]
        cost.bytes_received += size
        cost.rounds += 1
        cost.seconds_waiting += seconds
        self.bytes_received += size

    def count_round(self, seconds: float) -> None:
        self.rounds += 1
        self.seconds_waiting += seconds
