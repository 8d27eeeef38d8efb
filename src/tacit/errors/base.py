"""The root of all errors: its fields, and how other layers add to them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self

from .call_sites import Frame, frames_of, library_line, running_frames, user_line
from .phrases import Phrase
from .rendering import notebook_lines, sentence

ALL_LINES = " (all lines: python -X dev)"


class Error(Exception):
    """The root of all errors of Tacit. What is not known of one is None; see `FIELDS`.

    The reason may be a phrase such as `Party(2) + " went away"`, whose ranks get the names of the
    parties once they are known. A layer that knows more sets it later: the names of the parties by
    rank, the operator, the classes of the module and of the whole model, the lines that ran.
    """

    subject: Phrase | None = None
    told: str | None = None  # what peers may know of it; see NOTE [what peers are told]
    path: str | None = None
    module: str | None = None
    model: str | None = None
    names: Sequence[str] = ()
    known_lines: tuple[Frame | None, Frame | None] | None = None

    def __init__(
        self,
        reason: Phrase,
        *,
        remedy: Phrase | None = None,
        limit: Phrase | None = None,
        party: int | None = None,
        operation: int | None = None,
        op: str | None = None,
        path: str | None = None,
        subject: Phrase | None = None,
        cause: Phrase | None = None,
        told: str | None = None,
    ) -> None:
        super().__init__(*(x for x in (reason, limit, remedy) if x is not None))
        self.reason = reason
        self.remedy, self.limit, self.cause = remedy, limit, cause
        self.party, self.operation, self.op = party, operation, op
        if path is not None:
            self.path = path
        if subject is not None:
            self.subject = subject
        if told is not None:
            self.told = told

    def __str__(self) -> str:
        return sentence(self)

    def __reduce__(self) -> tuple[Any, ...]:
        state = dict(self.__dict__)
        if self.line is not None:  # of the traceback, which is not sent
            state["known_lines"] = (self.line, self.library_line)
        return _rebuilt, (type(self), self.reason, state)

    @property
    def kind(self) -> str:
        """The name of the error's class; of a failed party, that of its own error."""
        return type(self).__name__

    @property
    def frames(self) -> tuple[Frame, ...]:
        """The frames that the error has passed so far, outermost first."""
        return frames_of(self.__traceback__)

    @property
    def line(self) -> Frame | None:
        """The user's line that led to the error."""
        return self.known_lines[0] if self.known_lines else user_line(self.frames)

    @property
    def library_line(self) -> Frame | None:
        """The line of a library such as transformers between the user's line and Tacit."""
        return self.known_lines[1] if self.known_lines else library_line(self.frames)

    def about(self, subject: Phrase) -> Self:
        """Puts a subject before the one that the error has, and returns the error.

        A reader of a part names the part, then the reader of the file names the file.
        """
        self.subject = subject if self.subject is None else subject + ": " + self.subject
        return self

    def locate(self) -> Self:
        """Sets the lines to those that run now, unless they are set, and returns the error."""
        if self.known_lines is None:
            frames = running_frames()
            self.known_lines = (user_line(frames), library_line(frames))
        return self

    def heading(self) -> tuple[Phrase, ...]:
        """Returns the first parts of the sentence."""
        return ()

    def tracebacks(self) -> Iterator[tuple[str, Sequence[Frame]]]:
        """Yields the tracebacks to show, each with a title."""
        yield "", frames_of(self.__traceback__)

    def _render_traceback_(self) -> list[str]:
        """Returns what IPython shows: all lines after `%xmode Verbose`, else a short form."""
        shell = _shell()
        if shell is not None and shell.InteractiveTB.mode == "Verbose":
            whole: Callable[..., list[str]] = shell.InteractiveTB.structured_traceback
            return whole(type(self), self, self.__traceback__)
        return notebook_lines(self)


def _shell() -> Any:
    """Returns IPython's shell, if this runs in one."""
    return sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None


def keeps_all_lines() -> bool:
    """Whether tracebacks of parties keep the lines of Tacit: with `python -X dev`, and in IPython.

    IPython shows a short form of them by itself.
    """
    return sys.flags.dev_mode or _shell() is not None


def _rebuilt(kind: type[Error], reason: Phrase, state: dict[str, Any]) -> Error:
    """Returns an error that was sent from another process."""
    error = kind(reason)
    error.__dict__.update(state)
    return error


@contextmanager
def naming_parties(names: Sequence[str]) -> Iterator[None]:
    """Adds the names of the parties to errors that leave the block."""
    try:
        yield
    except Error as error:
        error.names = tuple(names)
        raise
