"""Options and arguments that several commands have, and how a command gets a passphrase.

A passphrase comes from the environment or a prompt, never from an argument.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from ..errors import ConfigError

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]
Debug = Annotated[bool, typer.Option("--debug", help="Print the whole traceback of an error.")]
Guard = Annotated[
    bool,
    typer.Option(
        "--guard", help="Check on secrets that values stay in range; opens one bit for each module."
    ),
]
CheckRange = Annotated[
    bool,
    typer.Option(
        "--check-range",
        help="Compute in clear, and compare every operation with float64: names the operation and "
        "the module where a value leaves its range. Implies --protocol cleartext.",
    ),
]
NumParties = Annotated[int, typer.Option(help="The number of parties.", min=1)]
PartyFile = Annotated[Path, typer.Option("--parties", help="The party file.")]
PartyName = Annotated[
    str, typer.Option("--party", help="The name of this party in the party file.")
]
Key = Annotated[
    Path | None,
    typer.Option(help="The private key; by default NAME.key beside the party file."),
]
Listen = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT",
        help="Where to listen if it is not the party's address, for example behind a router.",
    ),
]
Log = Annotated[
    Path | None,
    typer.Option("--log", help="Where it writes; by default runs/JOB-NAME.", metavar="FOLDER"),
]
Resume = Annotated[
    bool, typer.Option("--resume", help="Continue trainings from the checkpoints in the folder.")
]
Report = Annotated[
    Path | None,
    typer.Option(
        "--report",
        help="Write a page that shows where time, rounds and bytes went, and a trace beside it.",
        metavar="FILE.html",
    ),
]
AllowSimulated = Annotated[
    bool,
    typer.Option(
        "--allow-simulated",
        help="Accept an enclave without hardware: it proves nothing, and is for experiments.",
    ),
]
TrustedBuilds = Annotated[
    list[Path] | None,
    typer.Option(
        "--trusted-build",
        help="A build of Tacit that an enclave may run besides the one here: see `tacit measure`.",
        metavar="FILE",
    ),
]
Job = Annotated[Path, typer.Argument(help="A Python file with main(session, ...).")]
Arguments = Annotated[
    list[str] | None, typer.Argument(metavar="[-- ARGS]...", help="Arguments of main, as strings.")
]

VARIABLE = "TACIT_PASSPHRASE"


def new_passphrase() -> str:
    """Returns the passphrase for a new key."""
    return os.environ.get(VARIABLE) or _prompt("Passphrase for the new key", twice=True)


def passphrase_of(key: Path) -> str | None:
    """Returns the passphrase of a key file; None if it needs none or cannot be read."""
    from ..crypto import is_sealed

    try:
        if not is_sealed(key.read_bytes()):
            return None
    except OSError:
        return None
    return os.environ.get(VARIABLE) or _prompt(f"Passphrase of {key}", twice=False)


def _prompt(text: str, *, twice: bool) -> str:
    if not sys.stdin.isatty():
        raise ConfigError(
            "a passphrase is needed and there is no terminal to ask",
            remedy=f"set {VARIABLE} in the environment",
        )
    return str(typer.prompt(text, hide_input=True, confirmation_prompt=twice, err=True))
