"""`tacit enclave`: starts an enclave on this machine, which is its host, and relays for it."""

from __future__ import annotations

from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import ConfigError
from .errors import Known, reported
from .options import AllowSimulated, Arguments, Debug, Job, Json, Listen, Log, PartyFile, Resume
from .report import log, size
from .run import announce, logged
from .screen import Screen

if TYPE_CHECKING:
    from ..runtime.deploy.enclave_hosting import HostedEnclave
    from ..runtime.deploy.party_file import PartyFile as ReadFile

COUNTS = {"bytes_from_host": "in", "bytes_to_host": "out", "plaintext_peak": "of plaintext"}


def enclave(
    job: Job,
    parties: PartyFile,
    arguments: Arguments = None,
    name: Annotated[
        str | None, typer.Option("--enclave", help="The name of the enclave, if there are two.")
    ] = None,
    listen: Listen = None,
    log: Log = None,
    resume: Resume = False,
    allow_simulated: AllowSimulated = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Start an enclave that runs a job, and be its host.

    The host starts the same job with the same arguments and the same party file as the parties. It
    measures what the enclave will run, starts it as an isolated process, and relays what parties
    and workers say to it, which is encrypted for the enclave. Each party compares the measurement
    with its own job and its own party file. Of an error inside the host learns the class alone, and
    which worker is at fault. Checkpoints of the enclave are in the folder, encrypted under a key
    that takes the keys of all parties.

    Examples:

        tacit enclave --parties parties.toml --allow-simulated job.py

        tacit enclave --parties parties.toml --allow-simulated --enclave eve job.py -- 20 mnist
    """
    screen = Screen(json)
    with reported(screen, debug=debug) as known:
        from ..runtime.deploy.enclave_hosting import host_enclave
        from ..runtime.deploy.job import load_job
        from ..runtime.deploy.party_file import read_party_file

        file = read_party_file(parties)
        known.names = file.names
        own = chosen_enclave(file, name)
        loaded = load_job(job, arguments or [])
        folder = log or Path("runs") / f"{loaded.name}-{own}"
        announce(screen, file, own, loaded)
        about = {"enclave": own, "resume": resume, "party_file": file.digest().hex()}
        with logged(folder, known, loaded, **about):
            hosted = host_enclave(
                file,
                own,
                loaded,
                folder=folder,
                listen=listen,
                resume=resume,
                allow_simulated=allow_simulated,
            )
            _serve(screen, folder, hosted, known)


def chosen_enclave(file: ReadFile, name: str | None) -> str:
    """Returns the name of the enclave to start: the one that is asked for, or the only one."""
    names = [entry.name for entry in file.enclaves]
    if not names:
        raise ConfigError(
            "there is no enclave",
            limit=f"protocol={file.config.protocol!r} needs none",
            remedy="start the parties, each with `tacit run`",
            subject=f"{file.path}",
        )
    if name is None and len(names) == 1:
        return names[0]
    if name not in names:
        raise ConfigError(f"--enclave {name}", limit=f"the party file has {', '.join(names)}")
    return name


def _serve(screen: Screen, folder: Path, hosted: HostedEnclave, known: Known) -> None:
    """Relays until the enclave has ended, and prints what it counted."""
    started = monotonic()
    with hosted:
        screen.line(f"the enclave is ready; measurement {hosted.measurement.hex()[:16]}")
        with screen.live("relaying", lambda: _state(hosted.counts())):
            hosted.wait()
    found: dict[str, Any] = {"seconds": round(monotonic() - started, 3), **hosted.counts()}
    log(folder, "ended", **found)
    screen.line(f"{hosted.name}: {found['seconds']} s, {_state(hosted.counts())}")
    report = {"enclave": hosted.name, "measurement": hosted.measurement.hex(), **found}
    screen.document(report | {"folder": str(folder)})


def _state(counts: dict[str, int]) -> str:
    return ", ".join(f"{size(counts.get(name, 0))} {what}" for name, what in COUNTS.items())
