"""`tacit plan`: what the repeated functions of a job do in each replay."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .errors import reported
from .local import PROTOCOL_HELP
from .options import Arguments, Debug, Job, Json, NumParties
from .screen import Screen

if TYPE_CHECKING:
    from ..runtime import Session
    from ..runtime.deploy.job import Job as LoadedJob


def plan(
    job: Job,
    arguments: Arguments = None,
    num_parties: NumParties = 3,
    protocol: Annotated[str, typer.Option(help=PROTOCOL_HELP)] = "trio",
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Show what the functions that a job gives to session.repeated do in each replay.

    Runs the job with all parties as threads on this machine. For each function and each form of its
    arguments, and at each party: calls, rounds, bytes and memory; or why it is not recorded.

    Examples:

        tacit plan job.py

        tacit plan --protocol replicated job.py -- 20 mnist
    """
    screen = Screen(json)
    with reported(screen, debug=debug) as known:
        from .. import run
        from ..runtime.deploy.job import load_job

        loaded = load_job(job, arguments or [])
        known.names = [f"party{rank}" for rank in range(num_parties)]
        with screen.live("running", lambda: ""):
            reports = run(_recordings, loaded, parties=num_parties, protocol=protocol)
        for report in reports:
            lines = [line for one in report["functions"] for line in one["shown"].splitlines()]
            nothing = ["the job does not call session.repeated"]
            screen.section(f"recorded at {report['party']}", lines or nothing)
        screen.document({"parties": reports})


def _recordings(session: Session, job: LoadedJob) -> dict[str, Any]:
    """Runs the job at this party, and returns what its repeated functions have recorded."""
    session = replace(session, repeated_functions=[])
    job.main(session)
    functions = [
        {"shown": one.summary(), "recordings": [asdict(each) for each in one.recordings]}
        for one in session.repeated_functions or ()
    ]
    return {"party": session.name, "functions": functions}
