"""How errors are shown: as a sentence, in a notebook, and as fields for other programs.

A sentence is `SUBJECT: reason at operation N: cause: limit; remedy (in MODEL: PATH) (at LINE)`.
Fields that are not known are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import dropwhile, groupby
from typing import TYPE_CHECKING, Any

from .call_sites import Frame
from .phrases import Operation, Operator, Party, mentions, rendered

if TYPE_CHECKING:
    from .base import Error

SHORTENED = "Your lines (all lines: %xmode Verbose, then %tb):"
FIELDS = {
    "reason": "what happened",
    "subject": "what it is about, such as a file or a function",
    "party": "the party at fault, or the one that failed, by its rank",
    "operation": "the number of the protocol's operation",
    "op": "the operator of torch, such as aten.mm.default",
    "path": "the path of the module in the model",
    "line": "the innermost line of the user's program",
    "library_line": "the line of a library between the user's line and Tacit",
    "limit": "what is allowed",
    "remedy": "what to do",
    "cause": "the error of another party or of a library behind it",
}
Lines = tuple[Frame | None, Frame | None]


def sentence(error: Error, lines: Lines | None = None) -> str:
    """Returns all fields of an error in one sentence. `lines` are used if none are set in it."""
    names, reason = error.names, error.reason
    text = opening(error) + rendered(reason, names)
    if error.operation is not None and not mentions(reason, Operation(error.operation)):
        text += f" at {rendered(Operation(error.operation))}"
    for mark, part in ((": ", error.cause), (": ", error.limit), ("; ", error.remedy)):
        if part:
            text += mark + rendered(part, names)
    return text + "".join(f" ({place})" for place in places(error, error.known_lines or lines))


def statement(error: Error) -> str:
    """Returns what happened and the limit, without place, cause and remedy."""
    limit = f": {rendered(error.limit, error.names)}" if error.limit else ""
    return f"{rendered(error.reason, error.names)}{limit}"


def opening(error: Error) -> str:
    """Returns the text before the reason: the party at fault, the subject and the operator."""
    before = [*error.heading(), *([error.subject] if error.subject else [])]
    if error.op is not None and not mentions(error.reason, Operator(error.op)):
        before.append(error.op)
    if error.names and error.party is not None:
        party = Party(error.party)
        if not any(mentions(text, party) for text in (error.reason, *before)):
            before.insert(0, party)
    return "".join(f"{rendered(part, error.names)}: " for part in before)


def places(error: Error, lines: Lines | None) -> Iterator[str]:
    """Yields the module and the lines in words, if they are known."""
    if error.path is not None:
        kind = f", a {error.module}" if error.module else ""
        inner = f"{error.path!r}{kind}" if error.path else "the module itself"
        yield f"in {error.model}: {inner}" if error.model else f"in {inner}"
    if lines is not None:
        yield from lines_text(*lines)


def lines_text(line: Frame | None, library: Frame | None) -> Iterator[str]:
    """Yields the lines of an error in words, if they are known."""
    if library is not None:
        yield f"at {library}" + (f", called at {line}" if line else "")
    elif line is not None:
        yield f"at {line}"


def rendered_fields(error: Error) -> dict[str, Any]:
    """Returns every field of an error as plain data, with the party by its rank."""
    found: dict[str, Any] = {"kind": error.kind}
    for name in FIELDS:
        value = getattr(error, name)
        if isinstance(value, Frame):
            found[name] = f"{value.file}:{value.line} in {value.function}"
        else:
            found[name] = value if isinstance(value, int | None) else rendered(value, error.names)
    if found["cause"] is None and error.__cause__ is not None:
        found["cause"] = described(error.__cause__)
    return found


def described(error: BaseException) -> str:
    """Returns the class and the text of any error."""
    return f"{type(error).__name__}: {error}".removesuffix(": ")


# Tracebacks ---------------------------------------------------------------------------------------


def short_traceback(frames: Sequence[Frame]) -> Iterator[str]:
    """Yields a traceback in which runs of frames that are not the user's become one line.

    The innermost frame of a library is also shown.
    """
    for users, group in groupby(frames, key=lambda frame: frame.owner == "user"):
        run = list(group)
        if users:
            for frame in run:
                yield from _shown(frame)
            continue
        library = next((frame for frame in reversed(run) if frame.owner == "library"), None)
        if library is not None:
            yield from _shown(library)
        owners = ", ".join(dict.fromkeys(frame.owner for frame in run if frame is not library))
        if owners:
            yield f"  ... {len(run) - (library is not None)} lines of {owners}"


def _shown(frame: Frame) -> Iterator[str]:
    yield f"  {frame}"
    if frame.source:
        yield f"    {frame.source}"


def notebook_lines(error: Error) -> list[str]:
    """Returns what a notebook shows: the user's lines, then the sentence."""
    lines = []
    for title, frames in error.tracebacks():
        users = list(dropwhile(lambda frame: frame.owner != "user", frames))
        lines += [title or SHORTENED, *short_traceback(users)] if users else []
    return [*lines, f"{type(error).__name__}: {sentence(error)}", *getattr(error, "__notes__", ())]
