"""What runs inside an enclave process: it joins the session through its host, and runs the program.

Only what is measured gets here: the settings, the certificates of all others, and the program.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from importlib import import_module
from typing import Any

from ...enclave.attestation import Manifest
from ...enclave.attestation.request import attest
from ...enclave.first_line import through_port
from ...transport import Hello, Identity, Limits, Mesh, connect
from ..deploy.enclave_job import unpack_job
from .enclave_links import EnclaveLinks, worker_limits, workers_of
from .enclave_task import PEER_PORT, SESSION_PORT, EnclaveTask, worker_port
from .endpoint import NOWHERE, Address
from .pickled import unpack
from .program import Program, compare_settings

START_SECONDS = 120.0  # for the other enclave to be started
TRUSTED_LINKS = "tacit.enclave.trusted.links"  # an enclave alone imports it


def serve(context: Any) -> None:
    """Runs a packed Program as one of the session's enclaves; its result is dropped.

    context: the EnclaveContext that `tacit.enclave.trusted.process` makes.
    """
    _run(context, unpack(context.data, "main or one of its arguments"))


def serve_job(context: Any) -> None:
    """Runs a job as one of the session's enclaves, as `serve` does."""
    _run(context, unpack_job(context.data))


def _run(context: Any, program: Program) -> None:
    task, enclave = EnclaveTask.read(context.settings, context.data)
    member = Member(context, task, enclave)
    mesh = member.session_mesh()
    own = {name: repr(value) for name, value in asdict(task.config).items()}
    compare_settings(mesh, task.compared or own)
    try:
        links = member.links()
    except BaseException as error:
        mesh.abort(error)  # so that the parties hear who is missing
        raise
    program.run(
        mesh, config=task.config, session_id=task.session_id, whole_process=True, links=links
    )


class Member:
    """The connections of one enclave, all of them relayed by its host."""

    def __init__(self, context: Any, task: EnclaveTask, enclave: int) -> None:
        self._context, self._task, self._enclave = context, task, enclave
        self._own = context.credentials
        self._enclaves = [self._certificate_of(one) for one in range(len(task.enclaves))]

    def links(self) -> EnclaveLinks:
        """Returns the links to workers and to the other enclave, with what sealed memory needs."""
        return EnclaveLinks(
            self.worker_links(),
            self.peer_link(),
            self._context.manifest.digest(),
            self._context.host.count_with,
        )

    def session_mesh(self) -> Mesh:
        """Returns the mesh of all parties and enclaves."""
        parties = [party.certificate for party in self._task.parties]
        rank = len(parties) + self._enclave
        certificates = [*parties, *self._enclaves]
        return self._connect(SESSION_PORT, rank, self._task.session_addresses, certificates)

    def worker_links(self) -> tuple[Mesh, ...]:
        """Returns a mesh of two with each of this enclave's workers."""
        return tuple(map(self._worker_link, workers_of(self._task.config, self._enclave)))

    def peer_link(self) -> Mesh | None:
        """Returns the mesh of two enclaves, if there are two."""
        if len(self._enclaves) == 1:
            return None
        return self._connect(PEER_PORT, self._enclave, self._task.enclaves, self._enclaves)

    def _worker_link(self, worker: int) -> Mesh:
        certificates = [self._own.certificate, self._task.workers[worker]]
        limits = worker_limits(self._task.limits)
        with import_module(TRUSTED_LINKS).naming_worker(worker):
            return self._connect(worker_port(worker), 0, [NOWHERE] * 2, certificates, limits)

    def _connect(
        self,
        port: str,
        rank: int,
        addresses: Sequence[Address],
        certificates: Sequence[bytes],
        limits: Limits | None = None,
    ) -> Mesh:
        return connect(
            Hello(session=self._task.session_id, rank=rank, parties=len(addresses)),
            self._context.host.listen(port),
            addresses,
            identity=Identity(self._own.certificate, self._own.private_key, tuple(certificates)),
            limits=limits or self._task.limits,
            dial=self._context.host.dial
            if port == SESSION_PORT
            else through_port(port, self._context.host.dial),
        )

    def _certificate_of(self, enclave: int) -> bytes:
        """Returns the certificate of an enclave: the other one has to prove that it runs this."""
        if enclave == self._enclave:
            certificate: bytes = self._own.certificate
            return certificate
        mine = self._context.manifest.entries
        return attest(
            self._task.enclaves[enclave],
            Manifest({**mine, "setting enclave": str(enclave)}),
            allow_simulated=self._task.allow_simulated,
            seconds=max(START_SECONDS, self._task.limits.connect_deadline),
            dial=self._context.host.dial,
        )
