"""A worker of a party file's enclave, on a machine of its own."""

from __future__ import annotations

import secrets
from pathlib import Path

import torch

from ...crypto import protect_process, read_key_file
from ...enclave.attestation.quote import NONCE_BYTES
from ...enclave.attestation.request import ask_key
from ...enclave.worker import serve
from ...errors import ConfigError, EnclaveName, naming_parties
from ...transport import Mesh
from ..launch.enclave_links import workers_of
from ..launch.endpoint import Endpoint
from ..launch.worker_link import connect_worker
from ..placement import party_devices
from .agreed_items import group_id
from .party_file import PartyFile


class WorkerOf:
    """The worker of this name in a party file."""

    def __init__(self, file: PartyFile, name: str) -> None:
        names = [entry.name for entry in file.workers]
        if name not in names:
            raise ConfigError(
                f"--worker {name}", limit=f"the party file has {', '.join(names) or 'no workers'}"
            )
        self._file, self.number = file, names.index(name)
        self.entry = file.workers[self.number]
        enclaves = range(len(file.enclaves))
        [mine] = [one for one in enclaves if self.number in workers_of(file.config, one)]
        self.enclave = file.enclaves[mine]

    @property
    def device(self) -> torch.device:
        """Where it multiplies; ConfigError if this machine has no such device."""
        [devices] = party_devices(self.entry.device, self._file.placement, 1)
        return devices.products

    def connect(self, key: Path, passphrase: str | None) -> Mesh:
        """Returns the link to the enclave, once its host is there.

        The host says which key the enclave has, and the worker believes it: whoever has that key
        sends numbers that mean nothing to the worker.
        """
        protect_process()
        self.device  # noqa: B018  before anybody waits for this worker
        private = read_key_file(key, self.entry.certificate, passphrase)
        address, limits = (self.enclave.host, self.enclave.port), self._file.limits
        nonce = secrets.token_bytes(NONCE_BYTES)
        enclave = ask_key(address, nonce, seconds=limits.connect_deadline).certificate
        with naming_parties(self._names):
            return connect_worker(
                self.number,
                Endpoint(address, enclave),
                self.entry.certificate,
                private,
                session_id=group_id(self._file),
                limits=limits,
            )

    def serve(self, mesh: Mesh) -> None:
        """Answers the enclave's tasks until it ends."""
        with naming_parties(self._names):
            serve(mesh, self.device)

    @property
    def _names(self) -> tuple[str, str]:
        return EnclaveName(self.enclave.name), self.entry.name
