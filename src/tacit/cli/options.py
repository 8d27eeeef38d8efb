"""The options and arguments that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="One JSON document instead of text.")]
Debug = Annotated[bool, typer.Option("--debug", help="Whole tracebacks of errors.")]
PartyFile = Annotated[Path, typer.Option("--parties", help="The party file.")]
PartyName = Annotated[str, typer.Option("--party", help="Which of its parties this one is.")]
Key = Annotated[
    Path | None,
    typer.Option(help="The private key; by default NAME.key beside the party file."),
]
Listen = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT",
        help="Where to listen, if that is not the party's address, as behind a router.",
    ),
]
Job = Annotated[Path, typer.Argument(help="A Python file with main(session, ...).")]
Arguments = Annotated[
    list[str] | None, typer.Argument(metavar="[-- ARGS]...", help="For main, as strings.")
]
