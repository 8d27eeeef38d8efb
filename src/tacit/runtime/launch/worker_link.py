"""The link of a worker to its enclave, through the enclave's host."""

from __future__ import annotations

from ...crypto import wipe
from ...enclave.first_line import through_port
from ...enclave.worker import WORKER
from ...transport import Hello, Identity, Limits, Mesh, connect, listen
from ...transport.wire.tcp import dial
from .enclave_task import worker_port
from .endpoint import LOOPBACK, NOWHERE, Endpoint


def connect_worker(
    number: int,
    enclave: Endpoint,
    certificate: bytes,
    private_key: bytes,
    *,
    session_id: bytes,
    limits: Limits,
) -> Mesh:
    """Returns the mesh of two with the enclave; wipes the worker's private key.

    enclave: the address of its host, and the certificate that it says the enclave has. A worker
    need not know who its enclave is: it has no secret, and sees none.
    """
    certificates = (enclave.certificate, certificate)  # ENCLAVE is 0, WORKER is 1
    with listen(LOOPBACK, 0) as listener:  # nobody dials a worker
        mesh = connect(
            Hello(session=session_id, rank=WORKER, parties=2),
            listener,
            [enclave.address, NOWHERE],
            identity=Identity(certificate, private_key, certificates),
            limits=limits,
            dial=through_port(worker_port(number), dial),
        )
    wipe(private_key)
    return mesh
