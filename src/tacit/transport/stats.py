"""What communication costs: bytes, messages, rounds and waiting, in total, per peer, per scope."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from typing import NamedTuple, Self


@dataclass(slots=True)
class Cost:
    """Communication of this party. Bytes are those of the tensors, without headers.

    A round is one exchange that receives something and was not sent ahead. Bytes sent ahead are
    part of all bytes. Waiting is the time from the last send of an exchange until all that it
    receives is here.
    """

    bytes_sent: int = 0
    bytes_received: int = 0
    messages: int = 0
    rounds: int = 0
    seconds_waiting: float = 0.0
    bytes_sent_ahead: int = 0
    bytes_received_ahead: int = 0

    def add(self, other: Cost, sign: int = 1) -> None:
        for name in Cost.__slots__:
            setattr(self, name, getattr(self, name) + sign * getattr(other, name))


class Tally(Cost):
    """A cost, and the part of it that is due to each peer: `tally.peers[rank]`.

    Time spent waiting for several peers at once counts once in the total.
    """

    def __init__(self, peers: Iterable[int]) -> None:
        super().__init__()
        self.peers = {peer: Cost() for peer in peers}

    def accumulate(self, other: Tally, sign: int = 1) -> Self:
        """This tally after adding (or subtracting) another."""
        self.add(other, sign)
        for peer, cost in other.peers.items():
            self.peers[peer].add(cost, sign)
        return self

    def __repr__(self) -> str:
        values = zip(Cost.__slots__, astuple(self), strict=True)
        return f"Tally({', '.join(f'{name}={value}' for name, value in values)})"


class PausedScopes(NamedTuple):
    """The scopes of a thread while another one runs, and the cost at which it paused."""

    path: list[str]
    open: list[Tally]
    at: Tally | None


class Stats(Tally):
    """The cost of a mesh so far. Only transport writes it.

    bytes_preprocessed: what came from a stored run, offline; it is in no other number.
    operation_name: if it is set, `operations` adds up the bytes sent by the name it returns.
    """

    def __init__(self, peers: Iterable[int]) -> None:
        super().__init__(peers)
        self.scopes: dict[str, Tally] = {}
        self.bytes_preprocessed = 0
        self.operation_name: Callable[[], str] | None = None
        self.operations: dict[str, int] = {}
        self.path: list[str] = []  # the names of the scopes that are open, outermost first
        self._open: list[Tally] = []  # the costs at which the scopes in the path began

    @contextmanager
    def scope(self, name: str) -> Iterator[Tally]:
        """What is spent inside, complete when the scope ends; an inner scope is part of its outer.

        `scopes` adds up the scopes of the same name, inner ones as "outer/inner".
        """
        before, cost = self.snapshot(), Tally(self.peers)
        self.path.append(name)
        self._open.append(before)
        path = "/".join(self.path)
        try:
            yield cost
        finally:
            self.path.pop()
            self._open.pop()
            cost.accumulate(self).accumulate(before, -1)
            self.scopes.setdefault(path, Tally(self.peers)).accumulate(cost)

    def pause(self) -> PausedScopes:
        """Closes all scopes until `resume`: what is spent meanwhile is not theirs."""
        paused = PausedScopes(self.path, self._open, self.snapshot() if self._open else None)
        self.path, self._open = [], []
        return paused

    def resume(self, paused: PausedScopes) -> None:
        """Opens scopes again that were paused."""
        self.path, self._open, at = paused
        if at is not None:
            meanwhile = self.snapshot().accumulate(at, -1)
            for before in self._open:
                before.accumulate(meanwhile)

    def snapshot(self) -> Tally:
        """The cost up to now."""
        return Tally(self.peers).accumulate(self)

    def take_back(self, before: Tally) -> Tally:
        """Forgets what was counted since a snapshot, and returns it, without the waiting."""
        cost = self.snapshot().accumulate(before, -1)
        self.accumulate(cost, -1)
        for one in (cost, *cost.peers.values()):
            one.seconds_waiting = 0.0
        return cost

    def count_sent(self, peer: int, size: int, ahead: bool) -> None:
        of_peer = self.peers[peer]
        self.bytes_sent += size
        self.messages += 1
        of_peer.bytes_sent += size
        of_peer.messages += 1
        if ahead:
            self.bytes_sent_ahead += size
            of_peer.bytes_sent_ahead += size
        if self.operation_name is not None:
            name = self.operation_name()
            self.operations[name] = self.operations.get(name, 0) + size

    def count_received(self, peer: int, size: int, seconds: float, ahead: bool) -> None:
        of_peer = self.peers[peer]
        self.bytes_received += size
        of_peer.bytes_received += size
        of_peer.seconds_waiting += seconds
        if ahead:
            self.bytes_received_ahead += size
            of_peer.bytes_received_ahead += size
        else:
            of_peer.rounds += 1

    def count_round(self, seconds: float, ahead: bool) -> None:
        self.rounds += not ahead
        self.seconds_waiting += seconds
