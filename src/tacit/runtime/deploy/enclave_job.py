"""A job in an enclave: what its host starts it with, and what every party expects of it."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from pathlib import Path

from ...enclave.attestation import Manifest
from ...enclave.attestation.request import attest
from ...errors import ConfigError, EnclaveName
from ..launch.enclave_task import EnclaveTask
from ..launch.endpoint import Endpoint
from ..launch.program import Program
from .agreed_items import agreed_items, group_id
from .job import Job
from .party_file import PartyFile

JOB_FOLDER = Path("/nonexistent/job")  # of a job in an enclave: its files are measured bytes
JOB_MODULE = "tacit_job"


def enclave_task(
    file: PartyFile, job: Job | None, *, resume: bool, allow_simulated: bool
) -> EnclaveTask:
    """Returns what the enclaves of a party file are started with to run a job.

    All of it follows from the party file and the job: nothing that a party expects comes from the
    host of an enclave. allow_simulated: whether two enclaves accept each other without hardware.
    """
    if job is None:
        raise ConfigError(
            "there is no job",
            limit="an enclave runs a job that its parties know, and nothing else",
            remedy="use `tacit run`, or give tacit.connect the job",
        )
    return EnclaveTask(
        config=file.config,
        session_id=group_id(file),
        limits=file.limits,
        parties=tuple(Endpoint((one.host, one.port), one.certificate) for one in file.parties),
        workers=tuple(one.certificate for one in file.workers),
        enclaves=tuple((one.host, one.port) for one in file.enclaves),
        threads=file.enclave_threads,
        allow_simulated=allow_simulated,
        program=pack_job(job, file, resume=resume),
        modules={},
        function="serve_job",
        compared={**agreed_items(file, job=job, resume=resume), "preprocessed": json.dumps(False)},
    )


def attested(
    file: PartyFile,
    job: Job | None,
    *,
    resume: bool,
    allow_simulated: bool,
    builds: Sequence[Manifest] = (),
) -> PartyFile:
    """Returns the file with the certificates of its enclaves, each of which has proved what it is.

    builds: of Tacit, that are trusted besides the one that is installed here.
    Waits for their hosts as long as the file's connect_deadline says. Raises AttestationRejected,
    with the name of what differs, for an enclave that is not the expected one.
    """
    task = enclave_task(file, job, resume=resume, allow_simulated=allow_simulated)
    certificates = []
    for number, entry in enumerate(file.enclaves):
        manifest = task.configuration(number).measure()
        seconds = file.limits.connect_deadline
        found = attest(
            (entry.host, entry.port),
            manifest,
            builds=builds,
            allow_simulated=allow_simulated,
            seconds=seconds,
        )
        certificates.append(found)
    return file.with_keys(certificates)


def pack_job(job: Job, file: PartyFile, *, resume: bool) -> bytes:
    """Returns a job as the data of an enclave: the same bytes at everybody who has the same job."""
    files = {name: base64.b64encode(text).decode() for name, text in sorted(job.files.items())}
    packed = {
        "name": job.path.name,
        "arguments": job.arguments,
        "files": files,
        "parties": [one.name for one in file.parties],
        "enclaves": [one.name for one in file.enclaves],
        "resume": resume,
    }
    return json.dumps(packed).encode()


def unpack_job(data: bytes) -> Program:
    """Returns the program of an enclave that runs a job; it writes to the folder it starts in."""
    packed = json.loads(data)
    files = {name: base64.b64decode(text) for name, text in packed["files"].items()}
    path = JOB_FOLDER / packed["name"]
    job = Job(path, tuple(packed["arguments"]), files, JOB_MODULE)
    names = (*packed["parties"], *map(EnclaveName, packed["enclaves"]))
    return Program(job.main, (), {}, names, Path(), packed["resume"])
