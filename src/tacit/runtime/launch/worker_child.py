"""The process of an enclave's worker: it joins its enclave through the host, and multiplies."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection

import torch

from ...crypto import create_credentials, protect_process
from ...enclave.worker import serve
from ...transport import Limits
from .child import report
from .endpoint import NOWHERE, Endpoint
from .pickled import pack, unpack
from .worker_link import connect_worker


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
    """Tells the caller its certificate, is told where the enclave is, and serves it."""
    protect_process()
    own = create_credentials(f"worker {task.number}")
    link.send_bytes(pack(Endpoint(NOWHERE, own.certificate), "an endpoint"))
    enclave: Endpoint = unpack(link.recv_bytes(), "the endpoints")
    mesh = connect_worker(
        task.number,
        enclave,
        own.certificate,
        own.private_key,
        session_id=task.session_id,
        limits=task.limits,
    )
    serve(mesh, task.device)
