"""What checkpoints all parties have, which they tell each other before a training starts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from ...errors import CheckpointRejected, Party, told_to_peers
from ...fixedpoint import Numbers
from ...transport.consensus import all_gather, decode_all, quoted, synchronized

MOST = 1000  # newest checkpoints that a party lists


@dataclass(frozen=True)
class Inventory:
    """The message of one party, as JSON with these fields.

    have: its checkpoints, as steps by identity. refused: those it cannot use, and why. trouble: why
    it cannot use its folder at all, if so.
    """

    have: dict[str, int]
    refused: list[str]
    trouble: str

    @property
    def summary(self) -> str:
        steps = ", ".join(map(str, sorted(set(self.have.values())))) or "none"
        return f"steps {steps}" + "".join(f"; one cannot be used: {text}" for text in self.refused)


def exchange_inventories(
    n: Numbers,
    own: dict[str, int],
    refused: Sequence[CheckpointRejected],
    trouble: OSError | CheckpointRejected | None,
    folder: Path,
) -> list[Inventory]:
    """Returns every party's inventory by rank; only a party's own one names its files. 1 round.

    Raises CheckpointRejected at every party if one cannot use its folder.
    """
    newest = dict(sorted(own.items(), key=lambda item: -item[1])[:MOST])
    told = [told_to_peers(error) for error in refused[:MOST]]
    mine = Inventory(newest, told, told_to_peers(trouble) if trouble else "")
    mesh = n.protocol.context.mesh
    inventories = decode_all(all_gather(mesh, json.dumps(asdict(mine)).encode()), _read)
    inventories[mesh.rank] = Inventory(
        newest,
        [str(error) for error in refused[:MOST]],
        f"{folder}: {mine.trouble}" if isinstance(trouble, OSError) else str(trouble or ""),
    )
    for rank, one in enumerate(inventories):
        if one.trouble:
            error = CheckpointRejected(
                Party(rank) + f" cannot use its folder: {one.trouble}",
                subject="training",
                party=rank,
            )
            raise synchronized(mesh, error)
    return inventories


def common_checkpoints(inventories: Sequence[Inventory]) -> list[str]:
    """Returns the identities of the checkpoints that all parties have, newest first."""
    first, *others = (one.have for one in inventories)
    shared = [name for name in first if all(name in other for other in others)]
    return sorted(shared, key=lambda name: (-first[name], name))


def _read(message: bytes) -> Inventory:
    found = json.loads(message)
    have = {str(name): int(step) for name, step in found["have"].items()}
    refused = [quoted(str(text)) for text in found["refused"]]
    if max(len(have), len(refused)) > MOST:
        raise ValueError("more entries than an inventory has")
    return Inventory(have, refused, quoted(str(found["trouble"])))
