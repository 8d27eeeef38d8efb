"""`tacit run`: runs one party of a job, on that party's machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .. import __version__
from ..config import VISIBLE_WEIGHTS
from ..errors import ConfigError
from .dealer_process import dealing_beside
from .errors import Known, explain, reported
from .options import (
    AllowSimulated,
    Arguments,
    Debug,
    Job,
    Json,
    Key,
    Listen,
    Log,
    PartyFile,
    PartyName,
    Report,
    Resume,
    TrustedBuilds,
    passphrase_of,
)
from .report import log, play, print_report, print_reveals, state
from .screen import Screen

if TYPE_CHECKING:
    from ..runtime import Session
    from ..runtime.deploy.job import Job as LoadedJob
    from ..runtime.deploy.party_file import PartyFile as ReadFile


def run(
    job: Job,
    party: PartyName,
    parties: PartyFile,
    arguments: Arguments = None,
    key: Key = None,
    listen: Listen = None,
    log: Log = None,
    resume: Resume = False,
    preprocessed: Annotated[
        Path | None,
        typer.Option(
            "--preprocessed",
            help="This party's folder of stored runs, one of which takes the dealer's place.",
            metavar="FOLDER",
        ),
    ] = None,
    allow_simulated: AllowSimulated = False,
    trusted_build: TrustedBuilds = None,
    report: Report = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Run this party's part of a job.

    All parties start the same job with the same arguments and the same party file, in any order.
    They compare all of it before anything is shared, and end if something differs. Then each runs
    main(session, ...) of the job. Two files in the folder record it: reveals.jsonl has a line for
    everything that was opened, runs.jsonl for every run. The passphrase of the key comes from
    TACIT_PASSPHRASE or a prompt. An enclave has to prove that it runs this job with this party
    file; then this party sends its data to it alone.

    Examples:

        tacit run --party alice --parties parties.toml job.py

        tacit run --party alice --parties parties.toml job.py -- 20 mnist

        tacit run --party bob --parties parties.toml --listen 0.0.0.0:7000 --resume job.py

        tacit run --party alice --parties parties.toml --trusted-build arm.build job.py

        tacit run --party alice --parties parties.toml --report run.html job.py
    """
    screen = Screen(json)
    with reported(screen, debug=debug) as known:
        from ..runtime.deploy.party_file import read_party_file

        file = read_party_file(parties)
        if file.rank_of(party) >= len(file.parties):
            kind = "enclave" if file.enclaves else "dealer"
            raise ConfigError(
                f"party={party!r} is the {kind}", remedy=f"start it with `tacit {kind}`"
            )
        order = Order(job, arguments or [], party, file, key, listen, log, resume, preprocessed)
        order = replace(order, allow_simulated=allow_simulated, trusted_builds=trusted_build or ())
        order = replace(order, report=report)
        take_part(screen, known, order)


@dataclass(frozen=True)
class Order:
    """The options and arguments of the command."""

    job: Path
    arguments: list[str]
    party: str
    file: ReadFile
    key: Path | None
    listen: str | None
    folder: Path | None
    resume: bool
    preprocessed: Path | None = None
    allow_simulated: bool = False
    trusted_builds: Sequence[Path] = ()
    report: Path | None = None

    @property
    def own_key(self) -> Path:
        return self.key or self.file.key_file(self.party)

    def dealer_command(self, folder: Path) -> list[str | Path]:
        """Returns the command of the dealer, if this party's machine runs it, too."""
        options: list[str | Path] = [
            "--parties",
            self.file.path,
            "--key",
            self.own_key,
            "--log",
            folder / "dealer",
        ]
        options += ["--resume"] if self.resume else []
        return ["dealer", *options, self.job, "--", *self.arguments]

    def connect(self, job: LoadedJob, folder: Path | None, passphrase: str | None) -> Session:
        """Returns the session, once all parties are connected and agree."""
        from .. import connect

        return connect(
            self.file,
            party=self.party,
            key=self.own_key,
            passphrase=passphrase,
            listen=self.listen,
            job=job,
            folder=folder,
            resume=self.resume,
            preprocessed=self.preprocessed,
            allow_simulated=self.allow_simulated,
            trusted_builds=self.trusted_builds,
            report=self.report,
        )


def take_part(screen: Screen, known: Known, order: Order) -> None:
    """Runs the part of one member, and prints its report."""
    known.names = order.file.names
    report = _run(screen, known, order)
    print_report(screen, report)
    print_reveals(screen, report)
    if order.report is not None:
        screen.line(f"the report is in {order.report}")
    screen.document({key: value for key, value in report.items() if key != "shown"})


def _run(screen: Screen, known: Known, order: Order) -> dict[str, Any]:
    from ..runtime.deploy.job import load_job
    from ..runtime.deploy.security import dealer_warning

    file = order.file
    job = load_job(order.job, order.arguments)
    folder = order.folder or Path("runs") / f"{job.name}-{order.party}"
    passphrase = passphrase_of(order.own_key)
    announce(screen, file, order.party, job)
    about = {"party": order.party, "resume": order.resume, "party_file": file.digest().hex()}
    command = order.dealer_command(folder)
    with (
        logged(folder, known, job, **about),
        _dealing(order, command, passphrase),
    ):
        if warning := dealer_warning(file.config, file.names):
            log(folder, "warning", text=warning)
        waiting = f"waiting for the others, up to {file.limits.connect_deadline:g} s"
        screen.line(waiting)
        with screen.live(waiting, lambda: ""):
            session = order.connect(job, folder, passphrase)
        screen.line("all parties are here and agree")
        session.loops.is_shown = True
        with session, screen.live("running", lambda: state(session)):
            report = play(session, job)
        _log_cost(folder, report)
    return {**report, "folder": str(folder)}


def _dealing(
    order: Order, command: list[str | Path], passphrase: str | None
) -> AbstractContextManager[None]:
    """Within, this machine runs the dealer, too, if it is to; a stored run needs none."""
    if order.preprocessed is not None:
        return nullcontext()
    return dealing_beside(order.file, order.party, command, passphrase=passphrase)


def announce(screen: Screen, file: ReadFile, party: str, job: LoadedJob) -> None:
    """Prints who takes part, and who may learn what is revealed."""
    rows = [
        (
            entry.name + (" (here)" if entry.name == party else ""),
            entry.address,
            entry.device,
            _may_learn(file, rank),
        )
        for rank, entry in enumerate(file.members)
    ]
    screen.line(f"job {job.path.name}, program {job.program.hex()[:16]}")
    screen.line(f"protocol {file.config.protocol}, ring of {file.config.ring} bits")
    screen.table(("party", "address", "device", "may learn what is revealed"), rows)
    shown = "masked numbers"
    if file.config.outsourcing == VISIBLE_WEIGHTS:
        shown += " and the parameters of modules"
    for number, worker in enumerate(file.workers):
        screen.line(f"worker {number}: {worker.name} on {worker.device}, sees {shown}")


def _may_learn(file: ReadFile, rank: int) -> str:
    if file.enclaves and rank >= len(file.parties):
        return "computes on everything"
    if rank >= len(file.parties):
        return "no" if file.reveals is not None else "only with to_dealer=True"
    return "yes" if file.reveals is None or rank in file.reveals else "no"


@contextmanager
def logged(folder: Path, known: Known, job: LoadedJob, **content: Any) -> Iterator[None]:
    """Logs in the party's folder that a run started, and the error if it fails."""
    program = {"job": job.path, "arguments": job.arguments, "program": job.program.hex()}
    log(folder, "started", tacit=__version__, **program, **content)
    try:
        yield
    except BaseException as error:
        code, message = explain(error, known)
        with suppress(ConfigError):  # a full disk must not hide what went wrong
            log(folder, "failed", exit_code=int(code), error=message.splitlines()[0])
        raise


def _log_cost(folder: Path, report: dict[str, Any]) -> None:
    numbers = ("seconds", "bytes_sent", "bytes_received", "messages", "rounds")
    log(folder, "ended", **{n: report[n] for n in numbers}, reveals=len(report["reveals"]))
