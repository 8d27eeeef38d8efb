"""The process of an enclave's worker: it joins its enclave through the host, and multiplies."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection

import torch

from ...crypto import create_credentials, protect_process, wipe
from ...enclave.worker import WORKER, serve
from ...transport import Hello, Identity, Limits, Mesh, connect, listen
from .child import report
from .endpoint import LOOPBACK, Endpoint
from .pickled import pack, unpack


@dataclass(frozen=True, kw_only=True)
class WorkerTask:
    """What the process of one worker needs."""

    number: int
    device: torch.device
    session_id: bytes
    limits: Limits


def serve_worker(link: Connection, task: WorkerTask) -> None:
    """Runs one worker until its enclave ends, and reports its outcome over `link`."""
    report(link, task.number, partial(_run, link, task))


def _run(link: Connection, task: WorkerTask) -> None:
    protect_process()
    serve(_connect(link, task), task.device)


def _connect(link: Connection, task: WorkerTask) -> Mesh:
    """Returns the mesh of two with the enclave, at the address and with the key that the host says.

    A worker need not know who its enclave is: it has no secret, and sees none.
    """
    credentials = create_credentials(f"worker {task.number}")
    with listen(LOOPBACK, 0) as listener:
        own = Endpoint(listener.address, credentials.certificate)
        link.send_bytes(pack(own, "an endpoint"))
        enclave: Endpoint = unpack(link.recv_bytes(), "the endpoints")
        by_rank = [enclave, own]  # ENCLAVE is 0, WORKER is 1
        certificates = tuple(one.certificate for one in by_rank)
        mesh = connect(
            Hello(session=task.session_id, rank=WORKER, parties=2),
            listener,
            [one.address for one in by_rank],
            identity=Identity(credentials.certificate, credentials.private_key, certificates),
            limits=task.limits,
        )
    wipe(credentials.private_key)
    return mesh
