"""The process of one party: it listens, connects, runs the program and reports the outcome."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from multiprocessing import parent_process
from multiprocessing.connection import Connection
from threading import Thread
from typing import Any

from ...config import Config
from ...crypto import create_credentials, protect_process, wipe
from ...enclave.attestation.request import attest
from ...transport import Hello, Identity, Limits, Mesh, Network, connect, listen, memory_meshes
from ..placement import PartyDevices
from .enclave_task import EnclaveTask
from .endpoint import LOOPBACK, Endpoint
from .outcome import Failure, attempt
from .pickled import pack, unpack
from .program import Program, compare_settings


@dataclass(frozen=True, kw_only=True)
class PartyTask:
    """What the process of one party needs to run it."""

    rank: int
    parties: int
    devices: PartyDevices
    session_id: bytes
    config: Config
    limits: Limits
    network: Network
    program: bytes
    allow_simulated: bool = False


def serve_party(link: Connection, task: PartyTask) -> None:
    """Runs one party and reports its outcome over `link`; the exit code is 1 after a failure."""
    report(link, task.rank, lambda: pack(_run(link, task), "the return value of main"))


def report(link: Connection, number: int, action: Callable[[], Any]) -> None:
    """Does all that a process is for, sends its outcome to the caller, and ends the process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the caller gets it too, and ends this process
    Thread(target=_end_with_parent, daemon=True).start()
    outcome = attempt(number, action)
    if isinstance(outcome, Failure):
        outcome = replace(outcome, raised=None)
    sys.stdout.flush()  # the caller may end this process as soon as it has the outcome
    link.send_bytes(pack(outcome, "an outcome"))
    sys.exit(isinstance(outcome, Failure))


def _run(link: Connection, task: PartyTask) -> Any:
    protect_process()
    program: Program = unpack(task.program, "main or one of its arguments")
    mesh = _connect(link, task)
    return program.run(
        mesh,
        config=task.config,
        session_id=task.session_id,
        devices=task.devices,
        whole_process=True,
    )


def _connect(link: Connection, task: PartyTask) -> Mesh:
    """Sends this party's endpoint to the caller, gets those of all, and connects to them."""
    credentials = create_credentials(f"party {task.rank}")
    with listen(LOOPBACK, 0) as listener:
        own = Endpoint(listener.address, credentials.certificate)
        link.send_bytes(pack(own, "an endpoint"))
        told: list[Endpoint] | EnclaveTask = unpack(link.recv_bytes(), "the endpoints")
        endpoints = _attested(told, task, own) if isinstance(told, EnclaveTask) else told
        if task.parties == 1:
            return memory_meshes(1, limits=task.limits)[0]
        certificates = tuple(endpoint.certificate for endpoint in endpoints)
        mesh = connect(
            Hello(session=task.session_id, rank=task.rank, parties=task.parties),
            listener,
            [endpoint.address for endpoint in endpoints],
            identity=Identity(credentials.certificate, credentials.private_key, certificates),
            limits=task.limits,
            network=task.network,
        )
    wipe(credentials.private_key)
    compare_settings(mesh, {name: repr(value) for name, value in asdict(task.config).items()})
    return mesh


def _attested(told: EnclaveTask, task: PartyTask, own: Endpoint) -> list[Endpoint]:
    """Returns the endpoints of all members once each enclave has proved what it runs.

    It has to run this party's installation, program, settings and modules, and to expect this
    party's certificate. The others' endpoints are those that the caller tells.
    """
    expected = told.as_expected_by(
        task.rank,
        own,
        config=task.config,
        session_id=task.session_id,
        program=task.program,
    )
    enclaves = []
    for number, address in enumerate(told.session_addresses[len(told.parties) :]):
        manifest = expected.configuration(number).measure()
        certificate = attest(address, manifest, allow_simulated=task.allow_simulated)
        enclaves.append(Endpoint(address, certificate))
    return [*told.parties, *enclaves]


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
