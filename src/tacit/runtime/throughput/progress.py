"""How many items a program has done, and how fast: a line on a terminal, log lines elsewhere."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable, Sized
from time import monotonic
from typing import Any

from torch import Tensor
from torch.utils._pytree import tree_leaves

TERMINAL_SECONDS = 0.25  # between updates of the line
PLAIN_SECONDS = 30.0  # between lines of the log

log = logging.getLogger("tacit")


class Progress:
    """Counts batches and their items. `shows`: whether anything is shown."""

    def __init__(
        self,
        batches: tuple[Iterable[Any], ...],
        *,
        shows: bool,
        now: Callable[[], float] = monotonic,
    ) -> None:
        sizes = [len(one) for one in batches if isinstance(one, Sized)]
        self._total = f" of {min(sizes)}" if len(sizes) == len(batches) else ""
        self._shows, self._now = shows, now
        self._on_terminal = shows and sys.stderr.isatty()
        self._started = self._shown_at = now()
        self._batches = self._items = 0

    def add(self, batch: Any) -> None:
        """Notes that the result for a batch is here."""
        self._batches += 1
        self._items += num_items(batch)
        interval = TERMINAL_SECONDS if self._on_terminal else PLAIN_SECONDS
        if self._shows and self._now() - self._shown_at >= interval:
            self._shown_at = self._now()
            self._show("\r" if self._on_terminal else "")

    def end(self) -> None:
        """Shows the last state, if there is any."""
        if self._shows and self._batches:
            self._show("\n")

    @property
    def text(self) -> str:
        """The state in words."""
        rate = self._items / max(self._now() - self._started, 1e-9)
        done = f"{self._batches}{self._total} batches, {self._items} items"
        return f"map: {done}, {rate:.3g} items/s"

    def _show(self, end: str) -> None:
        if self._on_terminal:
            print(f"\r{self.text}\x1b[K", end=end.lstrip("\r"), file=sys.stderr, flush=True)
        else:
            log.info("%s", self.text)


def num_items(batch: Any) -> int:
    """Returns the size of the first dimension of the first tensor in a batch; 1 without any."""
    tensors = (x for x in tree_leaves(batch) if isinstance(x, Tensor) and x.dim())
    return next((len(x) for x in tensors), 1)
