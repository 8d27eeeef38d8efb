"""The commands. Nothing here imports torch: `--help` and completion answer at once."""

from __future__ import annotations

from typing import Annotated

import typer

from .. import __version__
from .check import check
from .doctor import doctor
from .local import local
from .ops import ops
from .party import init
from .run import run

app = typer.Typer(
    name="tacit",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (local, run, doctor, ops):
    app.command()(command)
party = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Make and check parties.")
party.command()(init)
party.command()(check)
app.add_typer(party, name="party")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tacit {__version__}")
        raise typer.Exit


@app.callback()
def tacit(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_version, help="Show the version.")
    ] = False,
) -> None:
    """Private machine learning for PyTorch: parties compute on shares, and nobody sees the data.

    Exit codes: 0 well; 1 the job's own error; 2 usage or configuration; 3 a peer or the network;
    4 refused by the reveal policy or the parties' agreement; 5 a checkpoint; 130 interrupted.
    """


def main() -> None:
    """The entry point."""
    app(prog_name="tacit")
