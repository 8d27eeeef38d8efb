"""How far the loops of a program are, and about how long the rest takes.

Every party knows it of its own loops, without a message. A command line shows it beside the cost
of the run; else party 0 prints it to stderr, if it was asked to: one line that changes on a
terminal, a line every PLAIN_SECONDS elsewhere.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import parent_process
from time import monotonic
from typing import Any

from torch import Tensor
from torch.utils._pytree import tree_leaves

from ..protocols.loops import Item, Loops

TERMINAL_SECONDS = 0.25  # between updates of the line
PLAIN_SECONDS = 30.0  # between lines elsewhere


class Progress:
    """How many items of one loop are done, `done` of them before. `total` may be unknown.

    The time left follows from the later half of the items at least: the first ones, which are
    recorded or compiled, take longer.
    """

    def __init__(
        self,
        name: str,
        total: int | None,
        *,
        done: int = 0,
        prints: bool = False,
        now: Callable[[], float] = monotonic,
    ) -> None:
        self._name, self._total, self._now = name, total, now
        self._prints = prints
        self._on_terminal = prints and sys.stderr.isatty() and parent_process() is None
        self._started = self._last = self._printed_at = now()
        self._first = self._done = done
        self._since = self._mark = (done, self._started)  # at the last powers of two of own items

    def add(self) -> None:
        """Notes that one more item is done."""
        self._done += 1
        self._last = self._now()
        own = self._done - self._first
        if not own & (own - 1):
            self._since, self._mark = self._mark, (self._done, self._last)
        interval = TERMINAL_SECONDS if self._on_terminal else PLAIN_SECONDS
        if self._prints and self._last - self._printed_at >= interval:
            self._printed_at = self._last
            self._print(self.text, ends=False)

    def end(self) -> None:
        """Prints the last state, if anything was done."""
        if self._prints and self._done > self._first:
            self._print(f"{self._count} in {duration(self._last - self._started)}", ends=True)

    @property
    def seconds_left(self) -> float | None:
        """About how long the rest takes; None if that is not known."""
        if self._total is None or self._done == self._first:
            return None
        done, then = self._since
        each = (self._last - then) / (self._done - done)
        since_last = self._now() - self._last
        return max(0.0, each * (self._total - self._done) - since_last)

    @property
    def text(self) -> str:
        """The state in words, the time left first: what follows may be cut off."""
        left = self.seconds_left
        return (f"{duration(left)} left, " if left is not None else "") + self._count

    @property
    def _count(self) -> str:
        total = f" of {self._total}" if self._total is not None else ""
        return f"{self._name}: {self._done}{total}"

    def _print(self, text: str, *, ends: bool) -> None:
        if self._on_terminal:
            text, end = f"\r{text}\x1b[K", "\n" if ends else ""
        else:
            end = "\n"
        print(text, end=end, file=sys.stderr, flush=True)


class MapProgress(Progress):
    """The progress of `session.map`, which also counts the items of batches."""

    _items = 0

    def add_batch(self, batch: Any) -> None:
        """Notes that the result for a batch is here."""
        self._items += num_items(batch)
        self.add()

    @property
    def _count(self) -> str:
        rate = self._items / max(self._last - self._started, 1e-9)
        return f"{super()._count} batches, {self._items} items, {rate:.3g} items/s"


@dataclass
class RunningLoops(Loops):
    """The loops of a party's program that are running, outermost first.

    is_shown: whether a command line shows them; then nothing is printed here.
    """

    is_shown: bool = False
    running: list[Progress] = field(default_factory=list)

    def counted(self, items: Iterable[Item], name: str, total: int) -> Iterator[Item]:
        return self.followed(items, Progress(name, total))

    def followed(self, items: Iterable[Item], progress: Progress) -> Iterator[Item]:
        """Yields the items, each of which is done when the next is asked for."""
        with self.added(progress):
            for item in items:
                yield item
                progress.add()

    @contextmanager
    def added(self, progress: Progress) -> Iterator[None]:
        """Within, the loop is running."""
        self.running.append(progress)
        try:
            yield
        finally:
            self.running.remove(progress)
            progress.end()

    @property
    def text(self) -> str:
        """The state of all loops in words; "" if none is running."""
        return "; ".join(progress.text for progress in tuple(self.running))


def length_of(*iterables: Iterable[Any]) -> int | None:
    """Returns the length of the shortest iterable; None if one has none."""
    sizes = [len(one) for one in iterables if isinstance(one, Sized)]
    return min(sizes) if len(sizes) == len(iterables) else None


def duration(seconds: float) -> str:
    """Returns a time in words, such as "42 s", "17 min" or "3.5 h"."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def num_items(batch: Any) -> int:
    """Returns the size of the first dimension of the first tensor in a batch; 1 without any."""
    tensors = (x for x in tree_leaves(batch) if isinstance(x, Tensor) and x.dim())
    return next((len(x) for x in tensors), 1)
