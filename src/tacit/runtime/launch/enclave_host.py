"""The caller of a run with enclaves: it is their host, and starts parties, workers and enclaves.

What it learns: the program, the shapes that pass, and how long everything takes. It relays what the
parties and the workers say to an enclave, and all of that is TLS that ends inside.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from time import monotonic
from typing import Any

import torch

from ...config import Config
from ...enclave.edl import END_SECONDS
from ...errors import ConfigError, PartyFailed, WorkerFailed
from ...transport import Limits, Listener, Network, listen
from ..placement import PartyDevices
from .child import PartyTask, serve_party
from .child_process import PATIENCE_SECONDS, Child, endpoints_of, receiver, tell
from .enclave_child import ECHO_NAMES, EnclaveMember
from .enclave_links import workers_of
from .enclave_task import EnclaveTask
from .endpoint import LOOPBACK, Endpoint
from .outcome import Failure, collect
from .pickled import pack, unpack
from .program import Program
from .user_modules import user_modules
from .worker_child import WorkerTask, serve_worker


def run_with_enclaves(
    program: Program,
    *,
    devices: Sequence[PartyDevices],
    config: Config,
    limits: Limits,
    network: Network,
    allow_simulated: bool,
) -> list[Any]:
    """Returns each party's return value, and None for each enclave.

    devices: of all members, then of the workers.
    """
    _check(network, allow_simulated)
    if program.folder is not None:  # an enclave starts in a folder of its own
        program = replace(program, folder=program.folder.absolute())
    members = len(devices) - config.workers
    data = pack(program, "main or one of its arguments")
    task = PartyTask(
        rank=0,
        parties=members,
        devices=devices[0],
        session_id=secrets.token_bytes(16),
        config=config,
        limits=limits,
        network=network,
        program=data,
        allow_simulated=allow_simulated,
    )
    with ExitStack() as ending:  # also after an interrupt
        parties = _start_parties(task, members - config.helpers, ending)
        workers = _start_workers(task, [one.products for one in devices[members:]], ending)
        ports = [ending.enter_context(listen(LOOPBACK, 0)) for _ in range(config.helpers)]
        told = _enclave_task(task, endpoints_of(parties, program.names), workers, ports)
        enclaves = _start_enclaves(told, ports, ending)
        _tell_workers(told, workers, enclaves)
        tell(parties, replace(told, program=b""))
        try:
            results = collect(
                receiver([*parties, *enclaves]),
                members,
                patience=PATIENCE_SECONDS + END_SECONDS,  # it tells which worker is at fault
                names=program.names,
            )
        except PartyFailed as error:
            _note_workers(error, workers)
            raise
        until = monotonic() + PATIENCE_SECONDS
        for child in (*parties, *workers):
            child.process.join(max(0.0, until - monotonic()))
        return [result and unpack(result, "a return value") for result in results]


def require_simulated(allowed: bool, remedy: str) -> None:
    """Raises ConfigError unless an enclave without hardware is asked for: there is no other yet."""
    if not allowed:
        raise ConfigError(
            "protocol='enclave' in processes, and a simulated enclave is not allowed",
            limit="an enclave is started without hardware here: its quote proves nothing, and the "
            "machine's administrator can read its memory",
            remedy=remedy,
        )


def _check(network: Network, allow_simulated: bool) -> None:
    require_simulated(allow_simulated, "give allow_simulated=True for an experiment")
    if network != Network():
        raise ConfigError(
            "network with protocol='enclave' and transport='processes'",
            limit="links that a host relays get no latency and no bandwidth",
            remedy="use transport='threads'",
        )


def _start_parties(task: PartyTask, count: int, ending: ExitStack) -> list[Child]:
    children = []
    for rank in range(count):
        own = replace(task, rank=rank)
        children.append(Child.start(serve_party, own, f"tacit-party-{rank}", rank))
        ending.callback(children[-1].end)
    return children


def _start_workers(
    task: PartyTask, devices: Sequence[torch.device], ending: ExitStack
) -> list[Child]:
    children = []
    for number, device in enumerate(devices):
        own = WorkerTask(
            number=number, device=device, session_id=task.session_id, limits=task.limits
        )
        children.append(Child.start(serve_worker, own, f"tacit-worker-{number}", number))
        ending.callback(children[-1].end)
    return children


def _enclave_task(
    task: PartyTask,
    parties: Sequence[Endpoint],
    workers: Sequence[Child],
    ports: Sequence[Listener],
) -> EnclaveTask:
    """Returns what the enclaves are started with, once all workers have said who they are."""
    names = [f"worker {worker.rank}" for worker in workers]
    try:
        certificates = [one.certificate for one in endpoints_of(workers, names)]
    except PartyFailed as error:
        raise WorkerFailed("a worker did not start", cause=error.headline) from error
    return EnclaveTask(
        config=task.config,
        session_id=task.session_id,
        limits=task.limits,
        parties=tuple(parties),
        workers=tuple(certificates),
        enclaves=tuple(one.address for one in ports),
        threads=torch.get_num_threads(),
        allow_simulated=task.allow_simulated,
        program=task.program,
        modules=user_modules(task.program),
    )


def _start_enclaves(
    task: EnclaveTask, ports: Sequence[Listener], ending: ExitStack
) -> list[EnclaveMember]:
    enclaves = []
    for number, own in enumerate(ports):
        enclaves.append(EnclaveMember.start(task, number, own))
        ending.callback(enclaves[-1].end)
    return enclaves


def _tell_workers(
    task: EnclaveTask, workers: Sequence[Child], enclaves: Sequence[EnclaveMember]
) -> None:
    """Tells each worker where its enclave's host is, and which certificate the enclave has."""
    for number, enclave in enumerate(enclaves):
        certificate = enclave.certificate()
        for worker in workers_of(task.config, number):
            tell([workers[worker]], Endpoint(task.enclaves[number], certificate))


def _note_workers(error: PartyFailed, workers: Sequence[Child]) -> None:
    """Adds how workers ended that did not end because of their enclave."""
    for worker in workers:
        if worker.link.poll():
            outcome = worker.take()
            if isinstance(outcome, Failure) and outcome.error.kind not in ECHO_NAMES:
                error.add_note(f"worker {worker.rank}: {outcome.error.reason}")
