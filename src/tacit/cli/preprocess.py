"""`tacit preprocess`: makes, lists and wipes stored runs of a job at one party."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import ConfigError
from .errors import reported
from .options import Debug, Json, Key, Listen, passphrase_of
from .report import size, state
from .run import Order, announce
from .screen import Screen

if TYPE_CHECKING:
    from ..runtime.preprocessing.store import Store

SHOWN = ("program", "protocol", "ring", "list of parties")


def preprocess(
    job: Annotated[
        Path | None, typer.Argument(help="A Python file with main(session, ...).")
    ] = None,
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="[-- ARGS]...", help="Arguments of main, as strings."),
    ] = None,
    party: Annotated[
        str | None, typer.Option("--party", help="The name of this party, or of the dealer.")
    ] = None,
    parties: Annotated[Path | None, typer.Option("--parties", help="The party file.")] = None,
    runs: Annotated[int, typer.Option("--runs", help="How many runs to make.")] = 1,
    folder: Annotated[
        Path | None,
        typer.Option(
            "--folder",
            help="Where this party keeps its stored runs; by default preprocessed/PARTY.",
        ),
    ] = None,
    listed: Annotated[
        bool, typer.Option("--list", help="List the runs that are left, and make none.")
    ] = False,
    wipe: Annotated[
        bool, typer.Option("--wipe", help="Overwrite and delete all runs, and make none.")
    ] = False,
    key: Key = None,
    listen: Listen = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Make what a dealer sends for later runs of a job, and keep it in files.

    All parties and the dealer start it with the same job, arguments, party file and number of runs.
    All run the job once, without opening anything, and the dealer once more for each run. Then
    `tacit run --preprocessed FOLDER` needs no dealer; each run is used once.

    Examples:

        tacit preprocess --runs 100 --party alice --parties parties.toml job.py

        tacit preprocess --list --folder preprocessed/alice

        tacit preprocess --wipe --folder preprocessed/alice
    """
    screen = Screen(json)
    with reported(screen, debug=debug) as known:
        from ..runtime.preprocessing.store import Store

        if folder is None and party is None:
            raise ConfigError("a folder of stored runs is needed", remedy="give --folder")
        store = Store(folder or Path("preprocessed") / str(party))
        if wipe:
            count = store.wipe()
            screen.line(f"{count} files in {store.folder} were overwritten and deleted")
            screen.document({"wiped": count, "folder": str(store.folder)})
        elif listed:
            _list(screen, store)
        elif job is None or party is None or parties is None:
            raise ConfigError("a job, --party and --parties are needed to make stored runs")
        else:
            from ..runtime.deploy.party_file import read_party_file

            file = read_party_file(parties)
            known.names = file.names
            order = Order(job, arguments or [], party, file, key, listen, None, False)
            made = _make(screen, order, store, runs)
            screen.line(f"{len(made)} runs were made in {store.folder}")
            screen.document({"runs": made, "folder": str(store.folder)})


def _list(screen: Screen, store: Store) -> None:
    """Prints how many runs are left, for which programs and settings."""
    found = store.inventory()
    groups = Counter(tuple(one.header.about.get(n, "") for n in SHOWN) for one in found.ready)
    sizes = Counter[tuple[str, ...]]()
    for one in found.ready:
        sizes[tuple(one.header.about.get(n, "") for n in SHOWN)] += one.size
    rows = [(str(count), size(sizes[group]), *group) for group, count in groups.items()]
    if rows:
        screen.table(("runs", "bytes", *SHOWN), rows)
    else:
        screen.line(f"no stored runs are left in {store.folder}")
    for error in found.rejected:
        screen.line(f"cannot be used: {error}")
    about: list[dict[str, Any]] = [
        {"runs": count, "bytes": sizes[group], **dict(zip(SHOWN, group, strict=True))}
        for group, count in groups.items()
    ]
    rejected = [str(error) for error in found.rejected]
    screen.document({"folder": str(store.folder), "ready": about, "rejected": rejected})


def _make(screen: Screen, order: Order, store: Store, runs: int) -> list[str]:
    """Makes the runs of this member, and returns their names."""
    from ..runtime.deploy.job import load_job
    from ..runtime.deploy.network_session import about_job
    from ..runtime.preprocessing.making import Batch, make_runs

    if runs < 1:
        raise ConfigError(f"--runs {runs}", limit="at least one run is needed")
    file = order.file
    job = load_job(order.job, order.arguments)
    passphrase = passphrase_of(order.own_key)
    announce(screen, file, order.party, job)
    waiting = f"waiting for the others, up to {file.limits.connect_deadline:g} s"
    screen.line(waiting)
    with screen.live(waiting, lambda: ""):
        session = order.connect(job, None, passphrase)
    batch = Batch(runs, job.main, about_job(file, job), whole_process=True)
    with session, screen.live(f"making {runs} runs", lambda: state(session)):
        return make_runs(session, batch, store)
