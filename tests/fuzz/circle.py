"""Party 0 among three, of whom party 1 says what a test makes it say."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import torch

NAMES = ("alice", "bob", "carol")


class Circle:
    """A mesh in which party 2 answers as party 0 speaks, and party 1 as it is told.

    `said` is what party 1 says in each round; None, or nothing any more, is what an honest one
    would say.
    """

    rank = 0
    parties = 3

    def __init__(self, *said: bytes | None, honest: Callable[[bytes], bytes] = bytes) -> None:
        self._said, self._honest = list(said), honest
        self._last = b""
        self.heard: list[bytes] = []
        self.stats = SimpleNamespace(scope=_scope)

    def exchange_bytes(
        self, send: Mapping[int, bytes], receive: Collection[int], *, operation: int | None = None
    ) -> dict[int, bytes]:
        if send:
            self._last = next(iter(send.values()))
            self.heard.append(self._last)
        if not receive:
            return {}
        told = self._said.pop(0) if self._said else None
        answers = {1: told, 2: None}
        return {
            peer: self._honest(self._last) if answers[peer] is None else answers[peer]  # type: ignore[misc]
            for peer in receive
        }

    def exchange(self, send: Any, receive: Mapping[int, Sequence[Any]], **_: Any) -> Any:
        return {
            p: [torch.zeros(s.shape, dtype=s.dtype) for s in specs] for p, specs in receive.items()
        }

    def certificate_expires(self, _: int) -> None:
        return None

    @property
    def numbers(self) -> Any:
        """As much of a session's numbers as is needed to talk."""
        context = SimpleNamespace(mesh=self)
        form = {"form": "three parts", "parties": self.parties}
        return SimpleNamespace(protocol=SimpleNamespace(rank=0, context=context, **form))


@contextmanager
def _scope(_: str) -> Iterator[None]:
    yield


def spoken(act: Callable[[Circle], object]) -> list[bytes]:
    """What party 0 says, round by round, while nobody lies."""
    circle = Circle()
    act(circle)
    return circle.heard
