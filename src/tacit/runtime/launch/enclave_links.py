"""The workers of an enclave: who has links to whom, and how a session uses them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from threading import Thread

import torch

from ...config import Config
from ...crypto import KEY_BYTES
from ...errors import Error
from ...protocols import Enclave
from ...protocols.plain_memory import MemoryCounters
from ...transport import Limits, Mesh, memory_meshes
from ..session import Session

JOIN_SECONDS = 1.0
TRUSTED = "tacit.enclave.trusted.outsourcing"  # an enclave alone imports these
TRUSTED_MEMORY = "tacit.enclave.trusted.sealed_memory"
Counts = Callable[[], dict[str, int]]


@dataclass(frozen=True)
class EnclaveLinks:
    """The links of one enclave: to its workers, in their order, and to the other enclave, if any.

    Each is a mesh of two, with the enclave at rank 0; between enclaves, with the first at rank 0.
    measurement: of the enclave, if it is a process; count_with takes what reports its counts then.
    pins_memory: workers copy what they are sent to a GPU, from memory of this process.
    """

    workers: tuple[Mesh, ...] = ()
    peer: Mesh | None = None
    measurement: bytes = b""
    count_with: Callable[[Counts], None] | None = None
    pins_memory: bool = False


NO_LINKS = EnclaveLinks()


def worker_limits(limits: Limits) -> Limits:
    """Returns the limits of a link to a worker: an enclave waits half as long for one that is late.

    The parties wait for the enclave meanwhile, and are to hear which worker it is.
    """
    return replace(limits, patience=limits.patience / 2)


def workers_of(config: Config, enclave: int) -> list[int]:
    """Returns the numbers of the workers that an enclave, 0 or 1, has links to."""
    return [w for w in range(config.workers) if config.helpers == 1 or w % 2 == enclave]


def attach_enclave(session: Session, links: EnclaveLinks) -> None:
    """Gives an enclave's session its memory, and the help of its workers, until its end."""
    operations, config = session.protocol, session.config
    assert isinstance(operations, Enclave)
    if config.memory_limit is not None:
        made = import_module(TRUSTED_MEMORY).open_memory(
            config.memory_limit,
            links.measurement,
            connections=_num_relayed(session, links),
            multiplies=config.outsourcing == "none",
        )
        operations.memory = memory = session.ending.enter_context(made)
        if links.count_with:
            links.count_with(lambda: _counts(memory.counters()))
    assert config.outsourcing is not None
    assert config.precision is not None
    outsourcer = import_module(TRUSTED).Outsourcer(
        links.workers,
        config.outsourcing,
        precision=config.precision,
        key=session.keys.key(operations.enclaves).derive("outsourcing", KEY_BYTES),
        peer=links.peer,
        cipher=config.cipher,
        memory=operations.memory,
        pins_memory=links.pins_memory,
    )
    operations.multiply, operations.show = outsourcer.multiply, outsourcer.show
    operations.precompute = outsourcer.precompute
    session.ending.callback(outsourcer.close)


def _num_relayed(session: Session, links: EnclaveLinks) -> int:
    """Returns how many connections of an enclave its host relays: two to each other member."""
    if not links.measurement:  # members are threads of this process
        return 0
    return 2 * (session.mesh.parties - 1 + len(links.workers) + (links.peer is not None))


def _counts(memory: MemoryCounters) -> dict[str, int]:
    """Returns what the host of an enclave may ask for."""
    return {
        "plaintext_resident": memory.resident,
        "plaintext_peak": memory.peak,
        "chunks_evicted": memory.evicted,
    }


@contextmanager
def workers_in_threads(
    config: Config, devices: Sequence[torch.device], limits: Limits
) -> Iterator[list[EnclaveLinks]]:
    """Runs the workers of all enclaves in threads of this process; yields each enclave's links."""
    from ...enclave.worker import serve

    links = [memory_meshes(2, limits=worker_limits(limits)) for _ in devices]
    peers = memory_meshes(2, limits=limits) if config.helpers == 2 else [None]

    def work(mesh: Mesh, device: torch.device) -> None:
        try:
            serve(mesh, device)
        except BaseException as error:
            mesh.abort(error)  # its enclave names it
            if not isinstance(error, Error):
                raise

    threads = [
        Thread(target=work, args=(link[1], device), name=f"tacit-worker-{i}", daemon=True)
        for i, (link, device) in enumerate(zip(links, devices, strict=True))
    ]
    for thread in threads:
        thread.start()
    try:
        pins = any(device.type == "cuda" for device in devices)
        yield [
            EnclaveLinks(
                tuple(links[w][0] for w in workers_of(config, enclave)), peer, pins_memory=pins
            )
            for enclave, peer in enumerate(peers[: config.helpers])
        ]
    finally:
        for link in links:
            link[0].abort("the run was ended")
        for thread in threads:
            thread.join(JOIN_SECONDS)
