"""What one party knows of a run at its end, as plain data without a value of anybody."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from ...errors import lines_of, told_to_peers
from ...protocols import Revealed
from ..session import Session
from .profiler import COUNTED, Place, Profiler, Spent
from .timeline import COMPUTING, SENDING, WAITING

KINDS = (COMPUTING, SENDING, WAITING)
AHEAD = ("bytes_sent_ahead", "bytes_received_ahead", "bytes_preprocessed")
PartyReport = dict[str, Any]


def party_report(
    session: Session,
    profiler: Profiler,
    replayed: Sequence[tuple[Place, Spent]],
    error: BaseException | None,
) -> PartyReport:
    """Returns the report of this party.

    replayed: places of replays, whose parts are estimated. error: what ended the run, if it failed.
    """
    stats, names = session.stats, session.names
    measured = zip(profiler.places, profiler.spent, strict=True)
    places = [_place(*one, estimated=False) for one in measured]
    places += [_place(*one, estimated=True) for one in replayed]
    return {
        "rank": session.rank,
        "name": session.name,
        "is_party": session.rank < session.parties,
        "start": profiler.start,
        "seconds": profiler.seconds,
        **{kind: sum(one[kind] for one in places) for kind in KINDS},
        **{name: getattr(stats, name) for name in (*COUNTED, *AHEAD)},
        "waited": {names[peer]: seconds for peer, seconds in profiler.waited.items()},
        "links": {
            names[peer]: {"bytes_sent": cost.bytes_sent, "bytes_received": cost.bytes_received}
            for peer, cost in stats.peers.items()
        },
        "places": places,
        "step": profiler.timeline.step,
        "events": _events(profiler),
        "memory": _memory(session, profiler),
        "reveals": _reveals(session.reveals),
        "ended": None if error is None else _ended(profiler, error),
    }


def _place(place: Place, spent: Spent, *, estimated: bool) -> dict[str, Any]:
    return {
        "part": place.part,
        "line": place.line,
        "estimated": estimated,
        "calls": spent.calls,
        **spent.seconds,
        **dict(zip(COUNTED, spent.counts, strict=True)),
    }


def _events(profiler: Profiler) -> list[list[int]]:
    """Returns each event: start and length in microseconds, kind, place and peer by number."""
    found: list[list[int]] = []
    for one in profiler.timeline.events:
        start, end = (round((time - profiler.start) * 1e6) for time in (one.start, one.end))
        kind, place, peer = one.doing
        found.append([start, end - start, KINDS.index(kind), place, peer])
    return found


def _memory(session: Session, profiler: Profiler) -> dict[str, Any]:
    memory, device = profiler.memory, session.device
    on_gpu = torch.cuda.max_memory_allocated(device) if device.type == "cuda" else None
    samples = [[round(time - profiler.start, 4), size] for time, size in memory.samples]
    return {"peak": memory.peak, "gpu_peak": on_gpu, "samples": samples}


def _reveals(record: list[Revealed]) -> list[dict[str, Any]]:
    """Returns the reveals, those of one line, form and receivers as one, in the order of lines."""
    groups: dict[Any, list[int]] = {}
    for one in record:
        about = (_short(one.where), one.to, one.shape, one.dtype, one.purpose, one.privacy)
        groups.setdefault(about, []).append(one.number)
    names = ("where", "to", "shape", "dtype", "purpose")
    return [
        {
            **dict(zip(names, about, strict=True)),
            "privacy": privacy and asdict(privacy),
            "count": len(numbers),
            "first": numbers[0],
        }
        for (*about, privacy), numbers in groups.items()
    ]


def _short(where: str) -> str:
    """Returns a place of the reveal record with the name of its file in place of the path."""
    path, mark, rest = where.rpartition(":")
    return f"{Path(path).name}{mark}{rest}"


def _ended(profiler: Profiler, error: BaseException) -> dict[str, str]:
    line, _ = lines_of(error)
    return {
        "kind": type(error).__name__,
        "told": told_to_peers(error),
        "line": "" if line is None else str(line),
        "part": "" if profiler.failed_at is None else profiler.failed_at.part,
    }
