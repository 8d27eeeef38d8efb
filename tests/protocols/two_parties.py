"""Two parties whose steps run in turns in one thread, or in two threads over a mesh."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import torch

from tacit.errors import ProtocolError
from tacit.protocols.oblivious import Transfers, set_up
from tacit.protocols.steps import Round, Steps
from tacit.transport import Mesh

SESSION = bytes(range(32))


@dataclass
class Turns:
    """messages: every tensor that a rank received, in order. rounds: the number of exchanges."""

    messages: dict[int, list[torch.Tensor]] = field(default_factory=lambda: {0: [], 1: []})
    rounds: int = 0

    def run(self, *steps: Steps[Any]) -> list[Any]:
        """The results of both parties."""
        waiting: list[Round | None] = [None, None]
        results: list[Any] = [None, None]
        received: list[Any] = [None, None]
        while True:
            for rank in (0, 1):
                try:
                    waiting[rank] = steps[rank].send(received[rank])
                except StopIteration as stop:
                    waiting[rank], results[rank] = None, stop.value
            if waiting == [None, None]:
                return results
            received = [self._delivered(waiting, rank) for rank in (0, 1)]
            self.rounds += 1

    def _delivered(self, rounds: list[Round | None], rank: int) -> dict[int, list[torch.Tensor]]:
        peer = 1 - rank
        own, other = rounds[rank] or Round(), rounds[peer] or Round()
        sent = other.send.get(rank, [])
        found = [(tuple(tensor.shape), tensor.dtype) for tensor in sent]
        if found != [tuple(spec) for spec in own.receive.get(peer, [])]:
            raise ProtocolError(f"party {peer} sent {found}")
        self.messages[rank] += sent
        return {peer: list(sent)} if sent else {}


def transfers() -> tuple[Transfers, Transfers]:
    """Both parties' ends of new transfers."""
    first, second = Turns().run(*(set_up(rank, 1 - rank, SESSION) for rank in (0, 1)))
    return first, second


def drive(mesh: Mesh, steps: Steps[Any]) -> Any:
    """The result of steps whose rounds travel over a mesh."""
    received: Any = None
    for number in count():
        try:
            one = steps.send(received)
        except StopIteration as stop:
            return stop.value
        received = mesh.exchange(one.send, one.receive, operation=number)
    raise AssertionError


def counted(mesh: Mesh, make: Callable[[], Steps[Any]]) -> tuple[Any, int, int]:
    """The result, the bits sent to the other party, and the rounds."""
    before = mesh.stats.snapshot()
    result = drive(mesh, make())
    sent = mesh.stats.bytes_sent - before.bytes_sent
    return result, 8 * sent, mesh.stats.rounds - before.rounds
