"""The file of a report: one page of HTML that holds its data, and a trace beside it."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, partial
from html.parser import HTMLParser
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ...crypto import open_private
from ...errors import ConfigError
from ..session import Session
from .chrome_trace import chrome_trace
from .measured_session import MeasuredSession
from .party_report import PartyReport

FORMAT = "tacit report 1"
DATA = "report-data"  # the element of the page that holds the data
PAGE_FILES = (
    "page.css",
    "elements.js",
    "tables.js",
    "timeline.js",
    "run_page.js",
    "comparison_page.js",
)
LOG = logging.getLogger("tacit")
Report = dict[str, Any]


@dataclass(frozen=True)
class ReportFile:
    """Where a report is written, and what it says that ran."""

    path: Path
    title: str

    def require_writable(self) -> None:
        """Raises ConfigError unless the file can be written: before a run, not after it."""
        try:
            open_private(self.path, "a").close()
        except OSError as error:
            raise ConfigError(
                f"the report {self.path} cannot be written",
                cause=error.strerror,
                remedy="choose a file in a folder that exists and has room",
            ) from error

    def write(self, parties: Sequence[PartyReport], about: Mapping[str, Any]) -> None:
        """Writes the page and the trace. A full disk is a warning: the results are worth more."""
        report = {"format": FORMAT, "title": self.title, **about, "parties": list(parties)}
        try:
            write_page(self.path, report)
            with open_private(self.trace, "w", encoding="utf-8") as file:
                json.dump(chrome_trace(report), file)
        except OSError as error:
            LOG.warning("the report %s cannot be written: %s", self.path, error.strerror)

    @property
    def trace(self) -> Path:
        """The file of the trace."""
        return self.path.with_suffix(".trace.json")

    def measured(self, session: Session, about: Mapping[str, Any]) -> MeasuredSession:
        """Returns the session, measured, whose end writes the report of its party alone."""
        return MeasuredSession.of(session, lambda own: self.write([own], about))


def report_file(given: str | Path | ReportFile | None, title: str) -> ReportFile | None:
    """Returns the file of the report that is asked for, if any, once it can be written.

    title: what the report says that ran, if only a path is given.
    """
    if given is None:
        return None
    file = given if isinstance(given, ReportFile) else ReportFile(Path(given), title)
    file.require_writable()
    return file


def facts(names: Sequence[str], num_parties: int, protocol: str, **others: str) -> dict[str, Any]:
    """Returns what a report says of a run besides its parties. others: transport and network."""
    return {
        "tacit": _own_version(),
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "protocol": protocol,
        "names": list(names),
        "num_parties": num_parties,
        **others,
    }


@cache
def _own_version() -> str:
    """Returns the installed version, read once: every run asks, and reading it takes long."""
    return version("tacit")


def run_facts(session: Session) -> dict[str, Any]:
    """Returns what a report says of the run of a session whose parties have their own machines."""
    names, parties, protocol = session.names, session.parties, session.config.protocol
    return facts(names, parties, protocol, transport="machines", network="")


# One report of all parties on this machine --------------------------------------------------------


@contextmanager
def collected(report: ReportFile | None, about: Mapping[str, Any]) -> Iterator[Path | None]:
    """Within, parties write their reports to this folder; then they become one, also if it fails.

    Without a report there is no folder.
    """
    if report is None:
        yield None
        return
    with TemporaryDirectory(prefix="tacit-report-") as folder:
        try:
            yield Path(folder)
        finally:
            parts = sorted(Path(folder).glob("*.json"), key=lambda part: int(part.stem))
            report.write([json.loads(part.read_text()) for part in parts], about)


def measured_into(folder: Path, session: Session) -> MeasuredSession:
    """Returns the session, measured, whose end writes the party's report to a folder."""
    return MeasuredSession.of(session, partial(_write_part, folder))


def _write_part(folder: Path, own: PartyReport) -> None:
    whole = folder / f"{own['rank']}.part"
    whole.write_text(json.dumps(own))
    whole.replace(whole.with_suffix(".json"))


# The page -----------------------------------------------------------------------------------------


def write_page(path: Path, data: Report) -> None:
    """Writes a page that shows a report, or a comparison of two."""
    folder = files(__package__) / "page"
    page = (folder / "page.html").read_text("utf-8")
    for name in PAGE_FILES:
        page = page.replace(f"[[{name}]]", (folder / name).read_text("utf-8"), 1)
    page = page.replace(f"[[{DATA}]]", embedded(data), 1)
    with open_private(path, "w", encoding="utf-8") as file:
        file.write(page)


def embedded(data: Any) -> str:
    """Returns data as JSON in which no text can end the element of the page that holds it."""
    text = json.dumps(data, separators=(",", ":"))
    for mark in "<>&":
        text = text.replace(mark, f"\\u{ord(mark):04x}")
    return text


def read_report(path: Path) -> Report:
    """Returns the data of a page that `write_page` has written."""
    reader = _Reader()
    try:
        reader.feed(path.read_text("utf-8"))
        data = json.loads("".join(reader.found))
    except OSError as error:
        raise ConfigError(f"the report {path} cannot be read", cause=error.strerror) from error
    except ValueError as error:  # no text, no data, or no JSON
        raise _no_report(path) from error
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise _no_report(path)
    return data


def _no_report(path: Path) -> ConfigError:
    return ConfigError(
        f"{path} holds no report",
        limit=f"a page of this version of Tacit is needed, {FORMAT!r}",
        remedy="write one with --report",
    )


class _Reader(HTMLParser):
    """Finds the text of the element that holds the data."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._is_inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._is_inside = ("id", DATA) in attrs

    def handle_endtag(self, tag: str) -> None:
        self._is_inside = False

    def handle_data(self, data: str) -> None:
        if self._is_inside:
            self.found.append(data)
