"""Runs programs on secrets, and the same programs on plain integers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

import tacit
from tacit import Session

# Each protocol, and by how many parties its roles are rotated.
EVERYWHERE = pytest.mark.parametrize(
    ("protocol", "by"),
    [("trio", 0), ("trio", 1), ("trio", 2), ("replicated", 0), ("cleartext", 0)],
    ids=["trio", "trio-1", "trio-2", "replicated", "cleartext"],
)
RINGS = pytest.mark.parametrize("ring", [32, 64])


def evaluate(
    program: Callable[..., Any],
    *values: Tensor,
    protocol: str = "trio",
    by: int = 0,
    ring: int = 64,
    limit: int | None = None,
    **settings: Any,
) -> tuple[list[Tensor], int]:
    """Returns the revealed results of `program(p, *shares)`, equal at all parties, and rounds."""

    def main(session: Session) -> tuple[list[Tensor], int]:
        p: Any = session.protocol
        p = p.rotated(by) if by else p
        shares = [
            p.share(v if session.rank == i % 3 else None, i % 3, v.shape, limit=limit)
            for i, v in enumerate(values)
        ]
        with session.stats.scope("program") as cost:
            results = program(p, *shares)
        results = results if isinstance(results, list | tuple) else [results]
        return [p.reveal(result) for result in results], cost.rounds

    outcomes = tacit.run(main, protocol=protocol, ring=ring, fraction_bits=8, **settings)
    for found, _ in outcomes[1:]:
        assert all(torch.equal(a, b) for a, b in zip(found, outcomes[0][0], strict=True))
    return outcomes[0][0], max(rounds for _, rounds in outcomes)


def integers(shape: Sequence[int], limit: int, seed: int = 0) -> Tensor:
    """Returns integers of at most `limit`, among them both ends, zero, +-1 and ties."""
    generator = torch.Generator().manual_seed(seed)
    wide = torch.randint(-limit, limit + 1, tuple(shape), generator=generator)
    special = torch.tensor([-limit, 1 - limit, -1, 0, 1, limit - 1, limit])
    picked = special[torch.randint(0, len(special), wide.shape, generator=generator)]
    chosen = torch.rand(wide.shape, generator=generator) < 0.4
    return torch.where(chosen, picked, wide)


def close(found: Tensor, wanted: Tensor, error: float) -> None:
    assert found.shape == wanted.shape
    assert (found.double() - wanted.double()).abs().max() <= error
