"""`tacit local`: runs all parties of a job on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..config import Config
from ..registry import PROTOCOLS, TRANSPORTS
from .errors import Code, reported
from .link_use import add_percentages, print_link_use
from .options import (
    AllowSimulated,
    Arguments,
    CheckRange,
    Debug,
    Guard,
    Job,
    Json,
    NumParties,
    Report,
    Resume,
)
from .problems import show_problems
from .report import play, print_report, print_reveals, state
from .screen import Screen

if TYPE_CHECKING:
    from ..nn.validate import Problem
    from ..runtime import Session
    from ..runtime.deploy.job import Job as LoadedJob

*_NAMES, _LAST = PROTOCOLS
PROTOCOL_HELP = f"{', '.join(_NAMES)} or {_LAST}."
TRANSPORT_HELP = " ".join(f"{info.name}: {info.summary}" for info in TRANSPORTS.values())


def local(
    job: Job,
    arguments: Arguments = None,
    num_parties: NumParties = 3,
    names: Annotated[
        str | None, typer.Option(help="The names of the parties, such as alice,bob,carol.")
    ] = None,
    transport: Annotated[str, typer.Option(help=TRANSPORT_HELP)] = "threads",
    protocol: Annotated[str, typer.Option(help=PROTOCOL_HELP)] = "trio",
    device: Annotated[str | None, typer.Option(help="cpu or cuda, for all parties.")] = None,
    reveals: Annotated[
        str | None,
        typer.Option(help="The parties that may learn what is revealed, such as party1,party2."),
    ] = None,
    log: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Where the parties write; by default runs/JOB."),
    ] = None,
    resume: Resume = False,
    dealer: Annotated[
        str | None,
        typer.Option(help="own, insecure-first-party or none, for a protocol with a dealer."),
    ] = None,
    outsourcing: Annotated[
        str | None,
        typer.Option(help="For an enclave: which workers multiply, such as three-server, or none."),
    ] = None,
    allow_simulated: AllowSimulated = False,
    network: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="25gbit, 10gbit, 1gbit or wan: gives the links that latency and bandwidth, and "
            "prints how busy they were.",
        ),
    ] = None,
    guard: Guard = False,
    check_range: CheckRange = False,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Compare every operation with float64 while it runs, as tacit check does; ends "
            "with 1 if it found a problem.",
        ),
    ] = False,
    report: Report = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Run all parties of a job on this machine.

    This is for trying a job before organisations run it together. It hides nothing from whoever
    owns this machine.

    Examples:

        tacit local job.py

        tacit local --transport processes job.py -- 20 mnist

        tacit local --names alice,bob,carol --reveals bob --log runs/trial job.py

        tacit local --protocol additive --names alice,bob job.py

        tacit local --transport processes --network 1gbit job.py

        tacit local --check-range job.py

        tacit local --check job.py

        tacit local --network wan --report run.html job.py

        tacit local --protocol enclave --transport processes --allow-simulated job.py
    """
    screen = Screen(json)
    with reported(screen, debug=debug) as known:
        from .. import run
        from ..runtime.deploy.job import load_job
        from ..runtime.report import ReportFile
        from ..transport import network as build_network

        links = build_network(network)

        loaded = load_job(job, arguments or [])
        all_names = names.split(",") if names else [f"party{rank}" for rank in range(num_parties)]
        known.names = [*all_names, *_helpers(protocol, dealer, check_range)]
        screen.line(
            f"job {loaded.path.name}: {', '.join(known.names)} as {transport} on this machine"
        )
        launch = _Checked() if check else run
        followed = _Followed()
        in_threads = transport in TRANSPORTS and TRANSPORTS[transport].one_process
        with screen.live("running", followed.state):
            reports = launch(
                followed.play if in_threads else play,
                loaded,
                parties=len(all_names),
                protocol="cleartext" if check_range else protocol,
                debug=check_range,
                guard=guard,
                transport=transport,
                device=device,
                names=all_names,
                reveals=None if reveals is None else [name for name in reveals.split(",") if name],
                folder=log or Path("runs") / loaded.name,
                resume=resume,
                dealer=dealer,
                network=links,
                outsourcing=outsourcing,
                allow_simulated=allow_simulated,
                report=None if report is None else ReportFile(report, loaded.path.name),
            )
        problems = launch.problems if isinstance(launch, _Checked) else None
        shaped = links.default.bandwidth < float("inf")
        if shaped and reports:
            add_percentages(reports, known.names, links)
        for one in reports:
            print_report(screen, one)
            if shaped:
                print_link_use(screen, one)
        if reports:
            print_reveals(screen, reports[0])
        if report is not None:
            screen.line(f"the report is in {report}")
        shown = [{k: v for k, v in one.items() if k != "shown"} for one in reports]
        if problems is None:
            screen.document({"parties": shown})
            return
        show_problems(screen, problems)
        screen.document({"parties": shown, "problems": [asdict(one) for one in problems]})
        if problems:
            raise typer.Exit(Code.JOB)


class _Followed:
    """The session whose cost and progress are shown: that of party 0, in this process."""

    session: Session | None = None

    def play(self, session: Session, job: LoadedJob) -> dict[str, Any]:
        """Does what `play` does, and remembers the session of party 0."""
        if session.rank == 0:
            session.loops.is_shown, self.session = True, session
        return play(session, job)

    def state(self) -> str:
        """Returns how far party 0 is."""
        return "" if self.session is None else state(self.session)


class _Checked:
    """`tacit.run` as a rehearsal, which keeps the problems that it found."""

    problems: Sequence[Problem] = ()

    def __call__(self, *args: Any, **settings: Any) -> list[Any]:
        from ..runtime import check as rehearse

        found = rehearse(*args, **settings)
        self.problems = found.problems
        return found.results or []


def _helpers(protocol: str, dealer: str | None, check_range: bool) -> tuple[str, ...]:
    """Returns the names of the members that are no parties, if the run has any."""
    from ..protocols import helper_names

    if protocol not in PROTOCOLS or check_range:
        return ()
    return helper_names(Config(protocol=protocol, dealer=dealer))
