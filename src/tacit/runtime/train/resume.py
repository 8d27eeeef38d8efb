"""What the parties of a training tell one another before it starts."""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256

from ...errors import CheckpointRejected, Party
from ...fixedpoint import Numbers
from ...transport.consensus import all_gather, decode_all, quoted, synchronized

MOST = 1000  # checkpoints that a party tells of, the newest
SEED_BYTES = 16


@dataclass(frozen=True)
class Answer:
    """Steps of a party's checkpoints by identity, what it cannot use, and what stops it."""

    have: dict[str, int]
    refused: list[str]
    trouble: str
    seed: str

    @property
    def summary(self) -> str:
        steps = ", ".join(map(str, sorted(set(self.have.values())))) or "none"
        return f"steps {steps}" + "".join(f"; not {text}" for text in self.refused)


def meet(
    n: Numbers, have: dict[str, int], refused: Sequence[str], trouble: str
) -> tuple[list[Answer], int]:
    """Everybody's answer, by rank, and a public seed that no party chose. 1 round.

    CheckpointRejected at every party if one cannot use its folder.
    """
    newest = dict(sorted(have.items(), key=lambda item: -item[1])[:MOST])
    mine = Answer(newest, list(refused)[:MOST], trouble, secrets.token_hex(SEED_BYTES))
    mesh = n.protocol.context.mesh
    answers = decode_all(all_gather(mesh, json.dumps(asdict(mine)).encode()), _read)
    for rank, answer in enumerate(answers):
        if answer.trouble:
            error = CheckpointRejected(
                Party(rank) + f" cannot use its folder: {answer.trouble}",
                subject="training",
                party=rank,
            )
            raise synchronized(mesh, error)
    material = sha256("".join(answer.seed for answer in answers).encode()).digest()
    return answers, int.from_bytes(material[:8], "little") >> 1


def common(answers: Sequence[Answer]) -> list[str]:
    """The checkpoints that all parties have, the newest first."""
    first, *others = (answer.have for answer in answers)
    shared = [name for name in first if all(name in other for other in others)]
    return sorted(shared, key=lambda name: (-first[name], name))


def _read(message: bytes) -> Answer:
    found = json.loads(message)
    have = {str(name): int(step) for name, step in found["have"].items()}
    refused = [quoted(str(text)) for text in found["refused"]]
    seed = bytes.fromhex(found["seed"])
    if max(len(have), len(refused)) > MOST or len(seed) != SEED_BYTES:
        raise ValueError("more, or another seed, than an answer has")
    return Answer(have, refused, quoted(str(found["trouble"])), seed.hex())
