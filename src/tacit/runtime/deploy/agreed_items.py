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

MOST_LINES = 4096  # of a program that are compared one by one


def agreed_items(file: PartyFile, *, job: Job | None, resume: bool) -> dict[str, str]:
    """Returns what must be the same at all parties before anything is shared, by name."""
    about = {f"{name} of the party file": value for name, value in file.items().items()}
    about["the reveal policy"] = about.pop("reveals of the party file")
    return {
        "the version of tacit": __version__,
        "the version of torch": torch.__version__.partition("+")[0],
        **about,
        **program_items(job, most_lines=0 if file.enclaves else MOST_LINES),
        "the arguments": "none" if job is None else digest_of(job.arguments),
        "resume": json.dumps(resume),
    }


def program_items(job: Job | None, most_lines: int = MOST_LINES) -> dict[str, str]:
    """Returns the name of a job's file, and digests of every file up to each line and as a whole.

    So the first item that differs is the first line that does. Lines beyond `most_lines` of all
    files have none; with an enclave none has, whose measurement names items that all have.
    """
    if job is None:
        return {"the program": "none"}
    items, digests = {"the program": job.path.name}, job.digests
    for name, content in job.files.items():
        so_far = hashlib.sha256()
        for number, line in enumerate(content.splitlines(keepends=True), start=1):
            if len(items) <= most_lines:
                so_far.update(line)
                items[f"file {name} of the program, line {number}"] = so_far.hexdigest()[:16]
        items[f"file {name} of the program"] = digests[name]
    return items


def digest_of(arguments: Sequence[str]) -> str:
    """Returns a digest: a party's arguments are compared, but not shown to the others."""
    return hashlib.sha256(json.dumps(arguments).encode()).hexdigest()


def group_id(file: PartyFile) -> bytes:
    """Returns the identity of this group of parties, from their names and keys by rank."""
    keys = [(entry.name, entry.key_name) for entry in file.members]
    text = b"tacit parties v1\n" + json.dumps(keys).encode()
    return hashlib.sha256(text).digest()[:SESSION_BYTES]
