"""Where the time of outsourced products goes: by phase, and by product."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from ...protocols.products.bilinear import Bilinear


@dataclass
class Effort:
    """What products of one kind took. Phases are those of `Outsourcer.product`.

    `seconds["wait"]` is the time in which the enclave did nothing but wait for its workers.
    `wrapped` counts the `sums` that the modulus of `precision="goten"` has changed.
    """

    calls: int = 0
    bytes_sent: int = 0
    bytes_received: int = 0
    sums: int = 0
    wrapped: int = 0
    seconds: dict[str, float] = field(default_factory=dict)


class Counters:
    """The effort of all products, and of each kind: operation and shapes of its operands."""

    def __init__(self) -> None:
        self.total = Effort()
        self.products: dict[str, Effort] = {}
        self._current = Effort()

    @contextmanager
    def product(self, op: Bilinear, a: Sequence[int], b: Sequence[int]) -> Iterator[None]:
        """Counts what happens inside as a product of this kind."""
        name = f"{type(op).__name__} {tuple(a)} {tuple(b)}"
        self._current = self.products.setdefault(name, Effort())
        for effort in (self.total, self._current):
            effort.calls += 1
        yield

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Adds the time inside to a phase."""
        start = time.perf_counter()
        try:
            yield
        finally:
            spent = time.perf_counter() - start
            for effort in (self.total, self._current):
                effort.seconds[name] = effort.seconds.get(name, 0.0) + spent

    def count_bytes(self, sent: int, received: int) -> None:
        """Adds bytes of operands and answers, without headers."""
        for effort in (self.total, self._current):
            effort.bytes_sent += sent
            effort.bytes_received += received

    def count_wrapped(self, wrapped: int, sums: int) -> None:
        """Adds sums, and how many of them a modulus has changed."""
        for effort in (self.total, self._current):
            effort.wrapped += wrapped
            effort.sums += sums
