"""`tacit.connect`: one party of a program, on its own machine."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import torch

from ... import __version__
from ...crypto import public_key_fingerprint, read_key_file
from ...errors import ConnectError, HandshakeMismatch, naming_parties
from ...transport import Hello, Identity, Listener, Mesh
from ...transport import connect as connect_all
from ...transport import listen as take_port
from ...transport.setup.handshake import SESSION_BYTES
from ..launch.program import compare_settings, open_session
from ..placement import Place, places
from ..session import Session
from .address import parse_address, write_address
from .job import Job
from .party_file import PartyFile, read_party_file


def connect(
    path: str | Path,
    *,
    party: str,
    key: str | Path | None = None,
    passphrase: str | None = None,
    listen: str | None = None,
    job: Job | None = None,
    folder: str | Path | None = None,
    resume: bool = False,
) -> Session:
    """The session of `party` with all parties of a party file, once all are there and agree.

    `key` is the file of its private key, by default `<party>.key` beside the party file. A party
    listens on the port of its address; `listen` gives another host and port, for one behind a
    gateway. The others are waited for as long as the file's connect_deadline says. Then all
    compare the party file, `job`, `resume` and the versions of tacit and torch; a difference is
    HandshakeMismatch at every party. `folder` is where this party writes what it records.
    """
    file = read_party_file(path)
    rank = file.rank_of(party)
    entry = file.parties[rank]
    own_key = Path(path).parent / f"{party}.key" if key is None else Path(key)
    private = read_key_file(own_key, entry.certificate, passphrase)
    identity = Identity(entry.certificate, private, tuple(e.certificate for e in file.parties))
    [place] = places(entry.device, file.placement, 1)
    with naming_parties(file.names):
        mesh = _meet(file, rank, identity, _port(entry.address if listen is None else listen))
        try:
            compare_settings(mesh, agreed_items(file, job=job, resume=resume))
            return _opened(mesh, file, place, folder=folder, resume=resume)
        except BaseException as error:
            mesh.abort(error)
            raise


def agreed_items(file: PartyFile, *, job: Job | None, resume: bool) -> dict[str, str]:
    """What all parties must have alike before anything is shared."""
    about = {f"{name} of the party file": value for name, value in file.items().items()}
    about["the reveal policy"] = about.pop("reveals of the party file")
    return {
        "the version of tacit": __version__,
        "the version of torch": torch.__version__.partition("+")[0],
        **about,
        "the program": "none" if job is None else job.program.hex(),
        "the arguments": "none" if job is None else _digest(job.arguments),
        "resume": json.dumps(resume),
    }


def _digest(arguments: Sequence[str]) -> str:
    """What tells arguments apart without showing one party's to another."""
    return hashlib.sha256(json.dumps(arguments).encode()).hexdigest()


def group_id(file: PartyFile) -> bytes:
    """What tells these parties' messages from those of any others: who they are, by rank."""
    keys = [(entry.name, public_key_fingerprint(entry.certificate)) for entry in file.parties]
    text = b"tacit parties v1\n" + json.dumps(keys).encode()
    return hashlib.sha256(text).digest()[:SESSION_BYTES]


def _port(address: str) -> Listener:
    host, port = parse_address(address)
    try:
        return take_port(host, port)
    except ConnectError as error:
        error.remedy = (
            "choose another port, or, where the address in the party file is not this machine's "
            f"own, one that is, as in listen={write_address('0.0.0.0', port)!r}"
        )
        raise


def _meet(file: PartyFile, rank: int, identity: Identity, listener: Listener) -> Mesh:
    """The mesh with all parties."""
    hello = Hello(session=group_id(file), rank=rank, parties=len(file.parties))
    addresses = [(entry.host, entry.port) for entry in file.parties]
    try:
        return connect_all(hello, listener, addresses, identity=identity, limits=file.limits)
    except HandshakeMismatch as error:
        error.remedy = (
            "the parties and their certificates must be the same, in the same order, in the party "
            "files of all"
        )
        raise


def _opened(
    mesh: Mesh, file: PartyFile, place: Place, *, folder: str | Path | None, resume: bool
) -> Session:
    with ExitStack() as stack:
        stack.enter_context(place.entered())
        session = open_session(
            mesh,
            config=file.config,
            session_id=group_id(file),
            place=place,
            names=file.names,
            folder=None if folder is None else Path(folder),
            resume=resume,
        )
        session.ending.push(stack.pop_all())
        return session
