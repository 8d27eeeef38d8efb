"""The report of a run at one party: the result of `main`, the cost, and what was revealed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from ..errors import ConfigError
from .link_use import start_counting, traffic
from .screen import Screen

if TYPE_CHECKING:
    from ..runtime import Session
    from ..runtime.deploy.job import Job

LOG = "runs.jsonl"


def play(session: Session, job: Job) -> dict[str, Any]:
    """Runs the job at this party, and returns a report of plain data.

    A dealer has no result: it reports the cost.
    """
    before, started = start_counting(session), monotonic()
    value = job.main(session)
    value = None if session.is_dealer else value
    return {
        "party": session.name,
        "result": plain(value),
        "shown": "" if value is None else repr(value),
        "seconds": round(monotonic() - started, 3),
        **cost(session),
        **traffic(session, before),
        "reveals": [asdict(one) for one in session.reveals],
    }


def cost(session: Session) -> dict[str, int]:
    """Returns the bytes, messages and rounds of the party so far."""
    stats = session.stats
    names = ("bytes_sent", "bytes_received", "messages", "rounds")
    return {name: getattr(stats, name) for name in names}


def state(session: Session) -> str:
    """Returns the progress of a run, for the live line: first the loops, with the time left."""
    from ..kernels import num_compiled

    now, loops = cost(session), session.loops.text
    done, needed = num_compiled(session.device)
    kernels = f"compiling kernels for the GPU ({done} of {needed}); " if done < needed else ""
    sent = f"{now['rounds']} rounds, {size(now['bytes_sent'])} sent"
    return (loops and f"{loops}; ") + kernels + sent


def plain(value: Any) -> Any:
    """Returns a value for JSON: tensors become lists, unknown objects text."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple | set):
        return [plain(one) for one in value]
    return value if isinstance(value, str | int | float | bool | None) else repr(value)


def size(count: float) -> str:
    """Returns a number of bytes with a unit, such as "1.5 MB"."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.4g} GB"


def print_report(screen: Screen, report: Mapping[str, Any]) -> None:
    """Prints the result and the cost of one party."""
    if report["shown"]:
        screen.section(f"result at {report['party']}", report["shown"].splitlines())
    screen.line(
        f"{report['party']}: {report['seconds']} s, {report['rounds']} rounds, "
        f"{size(report['bytes_sent'])} sent, {size(report['bytes_received'])} received"
    )


def print_reveals(screen: Screen, report: Mapping[str, Any]) -> None:
    """Prints what was revealed, to whom, and by which line of the program.

    Reveals of one line in a row, of one form and to the same parties, are shown as one.
    """
    lines = []
    for shown, group in groupby(report["reveals"], key=_revealed):
        numbers = [one["number"] for one in group]
        last = f" to {numbers[-1]}" if len(numbers) > 1 else ""
        lines.append(f"{numbers[0]}{last}: {shown}")
    screen.section("revealed", lines or ["nothing"])


def _revealed(one: Mapping[str, Any]) -> str:
    guard = ", by a guard" if one["purpose"] == "guard" else ""
    form = f"{one['dtype']}{list(one['shape'])}"
    return f"{form} to {', '.join(one['to'])} at {one['where']}{guard}{_privacy(one['privacy'])}"


def _privacy(spent: Mapping[str, Any] | None) -> str:
    if spent is None:
        return ""
    return f", epsilon {spent['epsilon']:.4g}, delta {spent['delta']:.3g}: {spent['mechanism']}"


def log(folder: Path, event: str, **content: Any) -> None:
    """Adds a line to the log of runs in a party's folder."""
    from ..crypto import make_private_folder, open_private

    line = {"event": event, "time": datetime.now(UTC).isoformat(timespec="seconds"), **content}
    try:
        make_private_folder(folder)
        with open_private(folder / LOG, "a", encoding="utf-8") as file:
            file.write(json.dumps(line, default=str) + "\n")
    except OSError as error:
        raise ConfigError(
            f"the log {folder / LOG} cannot be written",
            cause=error.strerror,
            remedy="make room, or choose another --log FOLDER",
        ) from error
