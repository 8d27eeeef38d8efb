"""What the members of a party file must have in common before anything is shared."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

import torch

from ... import __version__
from ...transport.setup.handshake import SESSION_BYTES
from .job import Job
from .party_file import PartyFile


def agreed_items(file: PartyFile, *, job: Job | None, resume: bool) -> dict[str, str]:
    """Returns what must be the same at all parties before anything is shared, by name."""
    about = {f"{name} of the party file": value for name, value in file.items().items()}
    about["the reveal policy"] = about.pop("reveals of the party file")
    return {
        "the version of tacit": __version__,
        "the version of torch": torch.__version__.partition("+")[0],
        **about,
        **_program(job),
        "the arguments": "none" if job is None else digest_of(job.arguments),
        "resume": json.dumps(resume),
    }


def _program(job: Job | None) -> dict[str, str]:
    """Returns the name of a job's file and the digest of every file of it, by name."""
    if job is None:
        return {"the program": "none"}
    files = {f"file {name} of the program": digest for name, digest in job.digests.items()}
    return {"the program": job.path.name, **files}


def digest_of(arguments: Sequence[str]) -> str:
    """Returns a digest: a party's arguments are compared, but not shown to the others."""
    return hashlib.sha256(json.dumps(arguments).encode()).hexdigest()


def group_id(file: PartyFile) -> bytes:
    """Returns the identity of this group of parties, from their names and keys by rank."""
    keys = [(entry.name, entry.key_name) for entry in file.members]
    text = b"tacit parties v1\n" + json.dumps(keys).encode()
    return hashlib.sha256(text).digest()[:SESSION_BYTES]
