"""All parties in this process, one thread each, with channels in memory."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from functools import partial
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

from ...config import Config
from ...transport import NO_LOCK, Barrier, InterpreterLock, Limits, Mesh, Network, memory_meshes
from ..placement import PartyDevices
from ..public_randomness import replace_operators, unchanged_cuda_generators
from .enclave_links import workers_in_threads
from .outcome import Outcome, attempt, collect
from .program import Program

JOIN_SECONDS = 1.0
Connect = Callable[..., list[Mesh]]  # (parties, *, limits, network) -> a mesh for each rank


def run_threads(
    program: Program,
    *,
    devices: Sequence[PartyDevices],
    config: Config,
    limits: Limits,
    network: Network,
    connect: Connect | None = None,
) -> list[Any]:
    """Returns each party's return value. The parties share the arguments and the interpreter.

    `connect` makes their meshes, by default channels in memory: a transport of another kind is
    `functools.partial(run_threads, connect=...)`, see docs/guides/add_a_transport.md.
    A thread cannot be ended from outside: if a party fails, one that computes without ever talking
    is left behind after the deadline, and the error says so.
    """
    parties = len(devices) - config.workers
    replace_operators()
    session_id = secrets.token_bytes(16)
    interpreter = _interpreter_lock(devices) if connect is None else NO_LOCK
    connect = connect or partial(memory_meshes, interpreter=interpreter)
    meshes = connect(parties, limits=limits, network=network)
    if _is_one_gpu(devices) and network == Network():
        barrier = Barrier(parties, seconds=limits.deadline, interpreter=interpreter)
        for mesh in meshes:
            mesh.barrier = barrier
    outcomes: SimpleQueue[Outcome] = SimpleQueue()

    def party(mesh: Mesh) -> None:
        own, place = devices[mesh.rank], mesh.rank - parties + config.helpers
        run = partial(program.run, mesh, config=config, session_id=session_id, devices=own)
        if config.workers and place >= 0:
            run = partial(run, links=links[place])
        interpreter.acquire()
        try:
            outcomes.put(attempt(mesh.rank, run))
        finally:
            interpreter.release()

    threads = [
        Thread(target=party, args=(mesh,), name=f"tacit-party-{mesh.rank}", daemon=True)
        for mesh in meshes
    ]
    working = workers_in_threads(config, [one.products for one in devices[parties:]], limits)
    try:
        with unchanged_cuda_generators(), working as links:
            for thread in threads:
                thread.start()
            receive = partial(_next, outcomes)
            return collect(receive, parties, patience=limits.deadline, names=program.names)
    finally:  # also after an interrupt: whoever waits for a message stops waiting
        for mesh in meshes:
            mesh.abort("the run was ended")
        for thread in threads:
            thread.join(JOIN_SECONDS)


def _interpreter_lock(devices: Sequence[PartyDevices]) -> InterpreterLock:
    """Parties whose work all waits on GPUs take turns; kernels of CPUs run side by side."""
    return InterpreterLock() if all(one.shares.type == "cuda" for one in devices) else NO_LOCK


def _is_one_gpu(devices: Sequence[PartyDevices]) -> bool:
    """Whether all parties do all their work on one GPU."""
    return devices[0].shares.type == "cuda" and len(set(devices)) == 1


def _next(outcomes: SimpleQueue[Outcome], timeout: float | None) -> Outcome | None:
    try:
        return outcomes.get(timeout=timeout)
    except Empty:
        return None
