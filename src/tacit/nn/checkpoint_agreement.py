"""What the parties tell each other of their files before they load a checkpoint."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..errors import CheckpointRejected, Party, joined
from ..fixedpoint import Numbers
from ..protocols.forms import Held, givers
from ..transport.consensus import all_gather, decode_all, quoted, synchronized
from .checkpoint_contents import SavedState
from .checkpoint_file import contents_of, is_own_form, read_contents, saved_parts


@dataclass(frozen=True)
class Answer:
    """What one party says of its file, as JSON with these fields.

    refusal: why it cannot load the file, if so. form, parties: of the session that saved it.
    """

    refusal: str
    is_missing: bool
    id: str
    step: int
    form: str
    parties: int

    @classmethod
    def decode(cls, message: bytes) -> Answer:
        """Returns what a peer says."""
        found: dict[str, Any] = json.loads(message)
        kinds = {"refusal": str, "is_missing": bool, "id": str, "step": int, "form": str}
        for name, kind in {**kinds, "parties": int}.items():
            if type(found[name]) is not kind:
                raise TypeError(name)
        if found["is_missing"] and not found["refusal"]:
            raise ValueError("a file that is missing cannot be loaded")
        return cls(**found)


@dataclass(frozen=True)
class Saved:
    """The checkpoint that all parties load.

    held: who holds which part of a secret, in the order of the session that saved it; None if that
    had this session's form of share. source: the first member that has a file. lacking: whether
    some member has none.
    """

    id: str
    step: int
    held: Held | None
    source: int
    lacking: bool


def agree_on_saved(
    n: Numbers, own: Answer, refusal: CheckpointRejected | None, path: Path
) -> Saved:
    """Returns the checkpoint of all parties, or raises CheckpointRejected at every party.

    One round; one more if they differ.
    """
    mesh = n.protocol.context.mesh
    answers = decode_all(all_gather(mesh, json.dumps(asdict(own)).encode()), Answer.decode)
    held, needed = _needed(n, answers)
    for rank, answer in enumerate(answers):
        if answer.refusal and (rank in needed or not answer.is_missing):
            file = str(path) if rank == mesh.rank else "the file of " + Party(rank)
            error = refusal if rank == mesh.rank else None
            error = error or CheckpointRejected(quoted(answer.refusal))
            error.party = rank
            raise synchronized(mesh, error.about(file).about("load"))
    there = {rank: answer for rank, answer in enumerate(answers) if not answer.is_missing}
    if len({(answer.id, answer.form, answer.parties) for answer in there.values()}) > 1:
        steps = joined(", ", (Party(rank) + f": step {one.step}" for rank, one in there.items()))
        differ = CheckpointRejected(
            "the parties' files are of different checkpoints (" + steps + ")",
            remedy="give those of one",
            subject="load",
        )
        raise synchronized(mesh, differ)
    source = min(there)
    found = there[source]
    return Saved(found.id, found.step, held, source, len(there) < len(answers))


def _needed(n: Numbers, answers: Sequence[Answer]) -> tuple[Held | None, set[int]]:
    """Who holds which part, if in another form than this session's, and who must have a file."""
    everybody = set(range(len(answers)))
    known = [asdict(one) for one in answers if not one.refusal]
    if not known or is_own_form(n, known[0]):
        return None, everybody
    held = saved_parts(n, known[0])
    return held, everybody if held is None else set(givers(held, n.protocol.parties))


def public_contents(n: Numbers, own: SavedState | None, saved: Saved) -> SavedState:
    """Returns what is in this member's file, or, if it has none, what is public in it. 1 round."""
    mesh = n.protocol.context.mesh
    told = b""
    if mesh.rank == saved.source:
        assert own is not None
        told = b"".join(contents_of(own, secrets=False))
    contents = all_gather(mesh, told)[saved.source]
    return own or read_contents(n, bytearray(contents), ())
