"""The commands. Nothing here imports torch, so that `--help` and completion are fast."""

from __future__ import annotations

from typing import Annotated

import typer

from .. import __version__
from .check import check
from .dealer import dealer
from .doctor import doctor
from .enclave import enclave
from .errors import MEANINGS
from .local import local
from .measure import measure
from .ops import ops
from .party_check import check as check_party
from .party_init import init
from .plan import plan
from .preprocess import preprocess
from .report_compare import compare
from .run import run
from .worker import worker

app = typer.Typer(
    name="tacit",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (check, local, plan, run, dealer, enclave, worker, measure, preprocess, doctor, ops):
    app.command()(command)
party = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Make and check parties.")
party.command()(init)
party.command("check")(check_party)
app.add_typer(party, name="party")
report = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Compare reports of runs.")
report.command()(compare)
report.callback()(lambda: None)  # with one command, too, `compare` is written
app.add_typer(report, name="report")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tacit {__version__}")
        raise typer.Exit


CODES = "; ".join(f"{int(code)} {meaning}" for code, meaning in MEANINGS.items())
ABOUT = "Private machine learning for PyTorch: parties compute on shares, and nobody sees the data."


@app.callback(help=f"{ABOUT}\n\nExit codes: 0 all is well; {CODES}.")
def tacit(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_version, help="Show the version.")
    ] = False,
) -> None:
    """Handles the options before the command."""


def main() -> None:
    """Runs the command line."""
    app(prog_name="tacit")
