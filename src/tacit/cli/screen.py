"""What a command prints: tables and a live line on a terminal, plain lines elsewhere, or JSON."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from threading import Event, Thread
from time import monotonic
from typing import Any

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Column, Table

TERMINAL_SECONDS = 0.25  # between updates of the live line
PLAIN_SECONDS = 30.0  # between lines that say that a run goes on


class _Console(Console):
    """A console whose command goes on when nobody reads its output any more, as with `| head`.

    Other parties may wait for this one, and the exit code stays that of the command.
    """

    def on_broken_pipe(self) -> None:
        """Prints nothing from now on."""
        self.quiet = True
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


class Screen:
    """The output of one command. With `as_json` it is one JSON document on stdout and no text."""

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json
        self.console = _Console(highlight=False, soft_wrap=True)

    @property
    def terminal(self) -> bool:
        """Whether text goes to a terminal."""
        return self.console.is_terminal and not self.as_json

    def line(self, text: str = "") -> None:
        """Prints a line of text."""
        if not self.as_json:
            self.console.print(text, markup=False)

    def section(self, title: str, lines: Sequence[str]) -> None:
        """Prints a title and a line for each item."""
        self.line(f"{title}:")
        for text in lines:
            self.line(f"  {text}")

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Prints a table; aligned columns if stdout is not a terminal."""
        if self.as_json:
            return
        if self.terminal:
            table = Table(*columns)
            for row in rows:
                table.add_row(*row)
            self.console.print(table, markup=False)
            return
        widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]
        for row in (columns, *rows):
            cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            self.line("  ".join(cells).rstrip())

    def document(self, content: Mapping[str, Any]) -> None:
        """Prints the JSON document, with `as_json` only."""
        if self.as_json:
            sys.stdout.write(json.dumps(content, indent=2, default=str) + "\n")

    @contextmanager
    def live(self, what: str, state: Callable[[], str]) -> Iterator[None]:
        """Shows the time and `state()` while the block runs.

        On a terminal it is one line, cut at its width, elsewhere a line every PLAIN_SECONDS. With
        `as_json` it shows nothing, and everything that the block prints goes to stderr.
        """
        if self.as_json:
            with _stdout_to_stderr():
                yield
        elif self.terminal:
            with self._line(what) as show, _repeated(TERMINAL_SECONDS, lambda: show(state())):
                yield
        else:
            start = monotonic()

            def print_state() -> None:
                self.line(f"{what} for {monotonic() - start:.0f} s: {state()}".rstrip(": "))

            with _repeated(PLAIN_SECONDS, print_state):
                yield

    @contextmanager
    def _line(self, what: str) -> Iterator[Callable[[str], None]]:
        columns = (SpinnerColumn(), TextColumn(what), TimeElapsedColumn())
        rest = Column(ratio=1, no_wrap=True)  # what is too long is cut here, at its end
        state = TextColumn("{task.fields[state]}", markup=False, table_column=rest)
        with Progress(
            *columns, state, console=self.console, transient=True, expand=True
        ) as progress:
            task = progress.add_task(what, total=None, state="")
            yield lambda text: progress.update(task, state=text)


@contextmanager
def _stdout_to_stderr() -> Iterator[None]:
    """Sends what this process and its children write to stdout to stderr."""
    sys.stdout.flush()
    stdout = os.dup(1)
    try:
        os.dup2(2, 1)
        with redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(stdout, 1)
        os.close(stdout)


@contextmanager
def _repeated(seconds: float, action: Callable[[], None]) -> Iterator[None]:
    """Calls the action every `seconds` on a thread while the block runs."""
    done = Event()

    def repeat() -> None:
        while not done.wait(seconds):
            action()

    thread = Thread(target=repeat, name="tacit-live", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
