"""An enclave of a party file, seen from its host."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Self

from ...crypto import make_private_folder
from ...errors import ConfigError, PeerClosed
from ...transport import Listener
from ..launch.enclave_child import EnclaveMember
from ..launch.enclave_host import require_simulated
from ..launch.outcome import Failure
from .enclave_job import enclave_task
from .job import Job
from .network_session import open_listener
from .party_file import PartyFile


class HostedEnclave:
    """An enclave process that runs a job, and the port at which its host relays for it."""

    def __init__(self, name: str, member: EnclaveMember) -> None:
        self.name, self._member = name, member
        self._counts: dict[str, int] = {}

    @property
    def measurement(self) -> bytes:
        """The digest of what the enclave runs."""
        return self._member.process.manifest.digest()

    def counts(self) -> dict[str, int]:
        """Returns what the enclave counts; the last counts, once it has ended."""
        with suppress(PeerClosed):
            self._counts = self._member.process.relay.status()
        return self._counts

    def wait(self) -> None:
        """Returns when the enclave has ended; raises PartyFailed if it did not end well."""
        outcome = self._member.take()
        if isinstance(outcome, Failure):
            raise outcome.error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._member.end()


def host_enclave(
    file: PartyFile,
    name: str,
    job: Job,
    *,
    folder: Path,
    listen: str | None = None,
    resume: bool = False,
    allow_simulated: bool = False,
) -> HostedEnclave:
    """Starts an enclave of a party file, and relays for it at the address that the file says.

    listen: another host and port, for one behind a gateway. folder: where the enclave writes its
    checkpoints, in a subfolder of its name.
    """
    require_simulated(allow_simulated, "give --allow-simulated for an experiment")
    number = [entry.name for entry in file.enclaves].index(name)
    task = enclave_task(file, job, resume=resume, allow_simulated=allow_simulated)
    listener: Listener = open_listener(file, len(file.parties) + number, listen)
    try:
        make_private_folder(folder)
    except OSError as error:
        listener.close()
        raise ConfigError(f"{folder} cannot be used", cause=error.strerror) from error
    try:
        return HostedEnclave(name, EnclaveMember.start(task, number, listener, folder.absolute()))
    except BaseException:
        listener.close()
        raise
