"""Numbers that were revealed during a training, as a table and for TensorBoard."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from time import time
from typing import Any

from torch import Tensor

from ...crypto import open_private
from ...errors import CheckpointRejected, ConfigError, Party, RevealForbidden
from ...tensor import SecretTensor

TABLE = "scalars.csv"
EVENTS = "events"
FIRST = ["step", "time"]  # the first columns; time is in seconds since 1970


class Scalars:
    """Writes `scalars.csv` in a folder, a row per call, and TensorBoard's event files beside it.

    mute: whether nothing is written, as at an enclave, whose files its host can read.
    """

    def __init__(self, folder: Path, rank: int, *, mute: bool = False) -> None:
        self.path, self.rank, self._mute = folder / TABLE, rank, mute
        self._columns: list[str] = []
        self._first = 0
        self._events: Any = None

    def begin(self, step: int) -> None:
        """Continues at a step: deletes rows of this and later steps, which an aborted run left."""
        if self._mute:
            return
        self._first = step
        with self._reporting():
            if self.path.exists():
                self._rewrite([], step)

    def add(self, step: int, values: Mapping[str, Any]) -> None:
        """Adds a row; values that are None are left out."""
        row = {name: number(name, x) for name, x in values.items() if x is not None}
        if not row or self._mute:
            return
        with self._reporting():
            if not self._columns or not row.keys() <= set(self._columns):
                self._rewrite(list(row), step + 1)
            with open_private(self.path, "a", newline="") as file:
                writer = csv.DictWriter(file, self._columns)
                writer.writerow({"step": step, "time": f"{time():.3f}"} | row)
            self._show(step, row)

    def close(self) -> None:
        """Closes TensorBoard's file; a full disk is not a failure here."""
        events, self._events = self._events, None
        if events is not None:
            with suppress(OSError):
                events.close()

    def _rewrite(self, names: list[str], before: int) -> None:
        """Rewrites the table with the rows before a step, and with columns for these names too."""
        rows: list[dict[str, str]] = []
        columns = self._columns or FIRST
        if self.path.exists():
            with self.path.open(newline="") as file:
                reader = csv.DictReader(file)
                columns = list(reader.fieldnames or FIRST)
                rows = [row for row in reader if _is_before(row, before)]
        self._columns = columns + [name for name in names if name not in columns]
        temporary = self.path.with_name(f".{self.path.name}")
        with open_private(temporary, "w", newline="") as file:
            writer = csv.DictWriter(file, self._columns, extrasaction="ignore")
            writer.writeheader()
            writer.writerows(rows)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, self.path)

    def _show(self, step: int, row: Mapping[str, float]) -> None:
        if self._events is None and find_spec("tensorboard") is not None:
            from torch.utils.tensorboard import SummaryWriter

            events = str(self.path.with_name(EVENTS))
            self._events = SummaryWriter(events, purge_step=self._first)
        if self._events is not None:
            for name, x in row.items():
                self._events.add_scalar(name, x, step)

    @contextmanager
    def _reporting(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise CheckpointRejected(
                Party(self.rank) + f" could not write {self.path} ({error.strerror or error})",
                subject="log",
                party=self.rank,
            ) from error


def _is_before(row: Mapping[str, str | None], step: int) -> bool:
    found = row.get("step") or ""  # empty if the row was cut short
    return found.isdecimal() and int(found) < step


def number(name: str, x: Any) -> float:
    """Returns a public number, or a public tensor of one element, as a float."""
    if isinstance(x, SecretTensor):
        raise RevealForbidden(
            f"{name} is secret",
            remedy=f"log({name}=session.reveal({name})) opens it to every party",
            subject="log",
        )
    if isinstance(x, Tensor) and x.numel() == 1 and not x.is_complex():
        return float(x.detach())
    if isinstance(x, int | float):
        return float(x)
    what = f"a tensor of shape {tuple(x.shape)}" if isinstance(x, Tensor) else type(x).__name__
    raise ConfigError(
        f"{name} is {what}", remedy="a number or a tensor of one element is needed", subject="log"
    )
