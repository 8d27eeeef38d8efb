"""An enclave process of a run, seen from its host."""

from __future__ import annotations

import math
import secrets
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from time import monotonic
from typing import NamedTuple

from ...enclave.attestation.quote import NONCE_BYTES
from ...enclave.attestation.request import AttestedKey
from ...enclave.host.launcher import EnclaveProcess
from ...errors import PartyFailed, WorkerFailed
from ...transport import Listener
from .child_process import death
from .enclave_task import SESSION_PORT, EnclaveTask
from .outcome import ECHOES, REJECTIONS, Failure, Outcome, Success

ECHO_NAMES = {one.__name__ for one in ECHOES + REJECTIONS} | {"ConnectTimeout", "PeerTimeout"}
REJECTED_NAMES = {one.__name__ for one in REJECTIONS}  # whoever sees the file knows more of it
FAULTS = {
    "WorkerFailed": "does not answer",
    "CheatingDetected": "answered with a wrong product",
}


class EnclaveMember(NamedTuple):
    """An enclave process of this run; `link` is readable when it has ended."""

    rank: int
    process: EnclaveProcess
    link: Connection

    @classmethod
    def start(
        cls, task: EnclaveTask, number: int, listener: Listener, folder: Path | None = None
    ) -> EnclaveMember:
        """Starts one of the enclaves, and relays for it at a port.

        folder: where the process starts, and so where it writes what has no absolute path.
        """
        process = EnclaveProcess.start(
            task.configuration(number),
            may_dial=[one for one in task.session_addresses if one != task.enclaves[number]],
            threads=task.threads,
            folder=folder,
            keeps_freed_memory=task.config.memory_limit is None,
        )
        link, far_end = Pipe(duplex=False)
        process.relay.ended.add_done_callback(lambda _: far_end.close())
        process.relay.serve(listener, SESSION_PORT)
        return cls(len(task.parties) + number, process, link)

    def certificate(self) -> bytes:
        """Returns the certificate of the enclave, which its workers pin."""
        answer = self.process.relay.quote(secrets.token_bytes(NONCE_BYTES))
        return AttestedKey.decode(answer).certificate

    def take(self) -> Outcome:
        """How the enclave ended: its host learns the class of an error, and faulty workers."""
        word = self.process.wait()
        if not word:
            return Success(self.rank, None)
        who = " and ".join(f"worker {worker}" for worker in self.process.relay.at_fault)
        if who:
            reason = f"{who} {FAULTS.get(word, 'failed')}"
        else:
            reason = _told_nothing(word, self.process.exit_code)
        kind = word if word.isidentifier() else ""
        error = PartyFailed(reason, kind=kind, subject=who or None, party=self.rank)
        return Failure(error, _time(word, who), is_silent=word in REJECTED_NAMES)

    def end(self) -> None:
        self.process.kill()
        self.link.close()


def _time(word: str, who: str) -> float:
    """Returns when an enclave failed: first because of a worker, last because of another member."""
    if who:
        return -math.inf
    return math.inf if word in {*ECHO_NAMES, WorkerFailed.__name__} else monotonic()


def _told_nothing(word: str, exit_code: int | None) -> str:
    if word.isidentifier():
        return "an enclave tells its host no more of an error"
    return death(exit_code) if exit_code != 1 else word
