"""`tacit.connect`: the session of one party on its own machine, from a party file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from ...crypto import protect_process, read_key_file, wipe
from ...enclave.attestation.builds import read_build
from ...errors import ConfigError, ConnectError, HandshakeMismatch, naming_parties
from ...transport import Hello, Identity, Listener, Mesh
from ...transport import connect as connect_mesh
from ...transport import listen as open_port
from ..launch.endpoint import LOOPBACK
from ..launch.program import about_run, compare_settings, open_session
from ..placement import PartyDevices, party_devices
from ..preprocessing.store import Store
from ..preprocessing.taking import take
from ..public_randomness import public_randomness
from ..report.report_file import ReportFile, report_file, run_facts
from ..session import Session
from .addresses import parse_address, write_address
from .agreed_items import agreed_items, digest_of, group_id
from .enclave_job import attested
from .job import Job
from .party_file import PartyFile, read_party_file


def connect(
    parties: PartyFile | str | Path,
    *,
    party: str,
    key: str | Path | None = None,
    passphrase: str | None = None,
    listen: str | None = None,
    job: Job | None = None,
    folder: str | Path | None = None,
    resume: bool = False,
    preprocessed: str | Path | None = None,
    allow_simulated: bool = False,
    trusted_builds: Sequence[str | Path] = (),
    report: str | Path | ReportFile | None = None,
) -> Session:
    """Returns the session of `party`, or of the dealer, with all members of a party file.

    `parties` is the path of the party file, or what `read_party_file` returned. `key` is the file
    of the party's private key, by default `<party>.key` beside the party file. A party listens on
    the port of its address; `listen` gives another host and port, for one behind a gateway. It
    waits for the others as long as the file's connect_deadline says. Then all compare the party
    file, every file of `job`, `resume` and the versions of tacit and torch; a difference is
    HandshakeMismatch at every party. Without `job` no program is compared: the caller's own script
    may differ from that of the others. A dealer runs the same program under its own name, and
    learns nothing: what is revealed to all parties is NaN, 0 or False there. `folder` is where this
    party writes what it records. `preprocessed` is this party's folder of stored runs: one of them
    takes the place of the dealer, which is not connected, and is used up. An enclave has to prove
    that it runs this `job` with this party file, before anything is sent to it; `allow_simulated`
    accepts one without hardware, which proves nothing. `trusted_builds` are files that `tacit
    measure --export` has written on machines like that of the enclave: it may run one of these
    builds of Tacit instead of the one that is installed here. `report` is the .html file of a page
    that is written when the session ends: where this party's time, rounds and bytes went. It sends
    nothing; see docs/guides/report.md. From here on the process leaves no
    core dump, and no debugger of the same user may attach to it.

    Until the session closes, the default generators of torch, Python and numpy draw the same
    numbers at all parties.
    """
    protect_process()
    written = report_file(report, f"the part of {party}" if job is None else job.path.name)
    file = parties if isinstance(parties, PartyFile) else read_party_file(parties)
    rank = file.rank_of(party)
    builds = [read_build(path) for path in trusted_builds]
    if builds and not file.enclaves:
        raise ConfigError("trusted_builds", limit="the party file has no enclave that may run one")
    if file.enclaves:
        options = {"resume": resume, "allow_simulated": allow_simulated}
        file = attested(file, job, builds=builds, **options)
    identity = _identity(file, rank, key, passphrase)
    [devices] = party_devices(file.members[rank].device, file.placement, 1)
    with naming_parties(file.names):
        try:
            mesh = _connect(file, rank, identity, listen, dealt=preprocessed is None)
        finally:
            wipe(identity.private_key)  # OpenSSL has its own copy, and wipes it
        items = agreed_items(file, job=job, resume=resume)
        compare_settings(mesh, {**items, "preprocessed": json.dumps(preprocessed is not None)})
        about = about_job(file, job) | {"party": party}
        run = None if preprocessed is None else (Store(Path(preprocessed)), about)
        session = _open(mesh, file, devices, folder=folder, resume=resume, stored=run)
        return session if written is None else written.measured(session, run_facts(session))


def _identity(
    file: PartyFile, rank: int, key: str | Path | None, passphrase: str | None
) -> Identity:
    """Returns this party's certificate and private key, and the certificates of all."""
    certificate = file.members[rank].certificate
    key_file = file.key_file(file.names[rank]) if key is None else Path(key)
    private = read_key_file(key_file, certificate, passphrase)
    return Identity(
        certificate,
        private,
        tuple(entry.certificate for entry in file.members),
        second_roles=(len(file.parties),) if file.is_dealt_by_first else (),
    )


def _connect(
    file: PartyFile, rank: int, identity: Identity, listen: str | None, *, dealt: bool = True
) -> Mesh:
    """Returns the mesh with all parties of the file, and with its dealer if that is `dealt`."""
    members = file.members if dealt else file.parties
    if rank >= len(members):
        raise ConfigError(
            f"{file.names[rank]} is the dealer, which stored runs do without",
            remedy="start the parties only",
        )
    listener = open_listener(file, rank, listen)
    hello = Hello(session=group_id(file), rank=rank, parties=len(members))
    addresses = [(entry.host, entry.port) for entry in members]
    if not dealt:
        identity = replace(identity, peers=identity.peers[: len(members)], second_roles=())
    try:
        return connect_mesh(hello, listener, addresses, identity=identity, limits=file.limits)
    except HandshakeMismatch as error:
        error.remedy = (
            "the parties and their certificates must be the same, in the same order, in the party "
            "files of all"
        )
        raise


def open_listener(file: PartyFile, rank: int, listen: str | None) -> Listener:
    """Returns the open port of a member; nobody dials a dealer at the first party's address."""
    if listen is None and file.is_dealt_by_first and rank == len(file.parties):
        return open_port(LOOPBACK, 0)
    host, port = parse_address(file.members[rank].address if listen is None else listen)
    try:
        return open_port(host, port)
    except ConnectError as error:
        error.remedy = (
            "choose another port, or, where the address in the party file is not this machine's "
            f"own, one that is, as in listen={write_address('0.0.0.0', port)!r}"
        )
        raise


def _open(
    mesh: Mesh,
    file: PartyFile,
    devices: PartyDevices,
    *,
    folder: str | Path | None,
    resume: bool,
    stored: tuple[Store, Mapping[str, str]] | None = None,
) -> Session:
    """Returns the session over a mesh; its end releases the party's device."""
    try:
        with ExitStack() as stack:
            stack.enter_context(devices.selected())
            run = None if stored is None else stack.enter_context(take(mesh, *stored))
            session = open_session(
                mesh,
                config=file.config,
                session_id=group_id(file),
                devices=devices,
                names=file.names,
                folder=None if folder is None else Path(folder),
                resume=resume,
                stored=run,
            )
            stack.enter_context(public_randomness(session.keys, mesh.parties, whole_process=True))
            session.ending.push(stack.pop_all())
            return session
    except BaseException as error:
        mesh.abort(error)
        raise


def about_job(file: PartyFile, job: Job | None) -> dict[str, str]:
    """Returns what a stored run of a job is made for: the program, the settings, the parties."""
    name = "none" if job is None else f"{job.path.name} {job.program.hex()}"
    arguments = [] if job is None else job.arguments
    return about_run(f"{name} {digest_of(arguments)}", file.config, file.names)
