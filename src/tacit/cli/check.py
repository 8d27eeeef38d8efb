"""`tacit check`: a rehearsal of a job before any party meets."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import ConfigError
from .errors import Code, reported
from .local import PROTOCOL_HELP
from .options import Arguments, Debug, Job, Json, NumParties
from .problems import show_problems
from .report import plain, size
from .screen import Screen

if TYPE_CHECKING:
    from ..runtime.rehearsal.rehearse import PlaceCost, Rehearsal

MOST_PLACES = 14  # rows of the table of costs
SLOW = 0.1  # of all computing: such a place is shown even if it sends nothing
NETWORKS = {"1gbit": "LAN of 1 Gbit/s", "10gbit": "LAN of 10 Gbit/s", "wan": "WAN"}


def check(
    job: Job,
    arguments: Arguments = None,
    num_parties: NumParties = 3,
    names: Annotated[
        str | None, typer.Option(help="The names of the parties, such as alice,bob,carol.")
    ] = None,
    protocol: Annotated[str, typer.Option(help=PROTOCOL_HELP)] = "trio",
    dealer: Annotated[
        str | None,
        typer.Option(help="own, insecure-first-party or none, for a protocol with a dealer."),
    ] = None,
    fraction_bits: Annotated[int, typer.Option(help="The fraction bits of reals.")] = 16,
    range_bits: Annotated[
        int | None, typer.Option(help="Reals are below 2^range_bits in magnitude.")
    ] = None,
    stand_in: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE=SIZE",
            help="Made-up data for a file that is not here: visits.csv=1000x13, or "
            "visits.csv=1000:age,weight for columns with names. May be given several times.",
        ),
    ] = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Rehearse a job on this machine, before any party meets.

    Runs the job once, with all parties as threads, and compares every operation with float64.
    Lists values that leave their range, functions outside of their domain, precision that is lost,
    operators without a rule and public values that differ, each with module, line and what to
    change; then rounds and bytes by module, and the time that the job takes on networks. Files that
    `session.load` wants are read if they are here. Ends with 1 if it found a problem.

    Examples:

        tacit check job.py

        tacit check --stand-in visits.csv=1000x13 job.py -- 20

        tacit check --protocol additive --names alice,bob --fraction-bits 20 job.py
    """
    screen = Screen(json)
    with reported(screen, debug=debug) as known:
        from ..runtime import check as rehearse
        from ..runtime.deploy.job import load_job
        from ..runtime.rehearsal.rehearse import Rehearsing

        loaded = load_job(job, arguments or [])
        all_names = names.split(",") if names else [f"party{rank}" for rank in range(num_parties)]
        known.names = all_names
        screen.line(f"job {loaded.path.name}: rehearsed by {', '.join(all_names)}, {protocol}")
        progress = Rehearsing(is_shown=True)
        with screen.live("checking", lambda: progress.text):
            found = rehearse(
                loaded.main,
                stand_ins=_sizes(stand_in or []),
                progress=progress,
                parties=len(all_names),
                names=all_names,
                protocol=protocol,
                dealer=dealer,
                fraction_bits=fraction_bits,
                range_bits=range_bits,
            )
        show(screen, found)
        screen.document(document(found))
        if found.problems:
            raise typer.Exit(Code.JOB)


def _sizes(stand_ins: Sequence[str]) -> dict[str, str]:
    """The sizes of files by name, from FILE=SIZE."""
    pairs = [one.rpartition("=") for one in stand_ins]
    for name, _, size_text in pairs:
        if not name or not size_text:
            raise ConfigError(
                f"--stand-in {name or size_text}",
                limit="FILE=SIZE is needed, such as visits.csv=1000x13",
            )
    return {name: size_text for name, _, size_text in pairs}


def document(found: Rehearsal) -> dict[str, Any]:
    """Returns what a rehearsal found, for JSON."""
    names = found.names
    return {
        "problems": [asdict(problem) for problem in found.problems],
        "places": [
            {**asdict(place), "bytes_sent": _by_name(names, place.bytes_sent)}
            for place in found.places
        ],
        "rounds": found.rounds,
        "bytes_sent": _by_name(names, found.bytes_sent),
        "seconds": {name: round(value, 3) for name, value in found.seconds.items()},
        "stand_ins": found.stand_ins,
        "results": plain(found.results),
    }


def _by_name(names: Sequence[str], sizes: Sequence[int]) -> dict[str, int]:
    return dict(zip(names, sizes, strict=False))


def show(screen: Screen, found: Rehearsal) -> None:
    """Prints problems, costs and times on one screen."""
    for name, shape in found.stand_ins.items():
        screen.line(f"{name} is not here: made-up numbers stand in for it, {shape}")
    show_problems(screen, found.problems)
    _show_costs(screen, found)
    times = [f"{called} {found.seconds[name]:.3g} s" for name, called in NETWORKS.items()]
    screen.line(f"time, if each party has a machine like this one: {', '.join(times)}")
    cores, members = os.cpu_count() or 1, len(found.names)
    if cores < members:
        screen.line(f"all {members} on this machine, which has {cores} cores, take longer")


def _show_costs(screen: Screen, found: Rehearsal) -> None:
    """Prints a table of the places that cost most, in the order of the program."""
    seconds = sum(place.seconds for place in found.places)
    slow = [place for place in found.places if place.seconds > SLOW * seconds]
    sending = [place for place in found.places if place.rounds or any(place.bytes_sent)]
    most = [*slow, *sorted(sending, key=_weight, reverse=True)[: MOST_PLACES - len(slow)]]
    rows = [_row(place) for place in found.places if place in most]
    columns = ["where", "rounds", "computing", *(f"{name} sends" for name in found.names)]
    total = ["in all", str(found.rounds), f"{seconds:.3f} s", *map(size, found.bytes_sent)]
    screen.table(columns, [*rows, total])
    left_out = sum(place not in most for place in sending)
    if left_out:
        screen.line(f"cheaper places that are left out: {left_out}; --json has them")


def _weight(place: PlaceCost) -> tuple[int, int]:
    return sum(place.bytes_sent), place.rounds


def _row(place: PlaceCost) -> list[str]:
    seconds = f"{place.seconds:.3f} s"
    return [place.where, str(place.rounds), seconds, *map(size, place.bytes_sent)]
