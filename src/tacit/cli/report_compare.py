"""`tacit report compare`: what changed between two runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .errors import reported
from .options import Debug, Json
from .report import size
from .screen import Screen

BEFORE = Annotated[Path, typer.Argument(help="The report of the first run.", metavar="BEFORE.html")]
AFTER = Annotated[Path, typer.Argument(help="That of the second run.", metavar="AFTER.html")]


def compare(
    before: BEFORE,
    after: AFTER,
    output: Annotated[
        Path, typer.Option(help="The page that is written.", metavar="FILE.html")
    ] = Path("difference.html"),
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Compare the reports of two runs.

    Prints the time, the rounds and the bytes of both, and writes a page that compares them part by
    part, and says what only one of them reveals.

    Examples:

        tacit report compare before.html after.html

        tacit report compare before.html after.html --output difference.html
    """
    screen = Screen(json)
    with reported(screen, debug=debug):
        from ..runtime.report import compare_reports

        changes = compare_reports(before, after, output)
        rows = [
            (
                one.name.replace("_", " "),
                _shown(one.name, one.before),
                _shown(one.name, one.after),
                "" if one.ratio is None else f"{one.ratio:.2f}",
            )
            for one in changes
        ]
        screen.table(("", "before", "after", "after / before"), rows)
        screen.line(f"the comparison is in {output}")
        numbers = {one.name: {"before": one.before, "after": one.after} for one in changes}
        screen.document({"changes": numbers, "page": output})


def _shown(name: str, number: float) -> str:
    """Returns a number of a run with its unit."""
    if name == "bytes_sent":
        return size(number)
    return f"{number:g}" if name == "rounds" else f"{number:.3g} s"
