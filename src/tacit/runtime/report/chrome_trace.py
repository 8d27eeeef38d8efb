"""A report in the trace event format, which Perfetto and chrome://tracing show."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

from .party_report import KINDS
from .timeline import COMPUTING, NOBODY

Event = dict[str, Any]


def chrome_trace(report: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the trace: a process for each party, with its places, its waits and its memory."""
    parties = report["parties"]
    first = min((party["start"] for party in parties), default=0.0)
    events = [
        one
        for party in parties
        for one in _events_of(party, report["names"], (party["start"] - first) * 1e6)
    ]
    return {"displayTimeUnit": "ms", "otherData": {"title": report["title"]}, "traceEvents": events}


def _events_of(party: Mapping[str, Any], names: list[str], shift: float) -> Iterator[Event]:
    own = {"pid": party["rank"], "tid": 0}
    yield {**own, "ph": "M", "name": "process_name", "args": {"name": party["name"]}}
    yield {**own, "ph": "M", "name": "process_sort_index", "args": {"sort_index": party["rank"]}}
    yield {**own, "ph": "M", "name": "thread_name", "args": {"name": "program"}}
    for number, group in groupby(party["events"], key=lambda event: event[3]):
        within, place = list(group), party["places"][number]
        start, end = within[0][0], within[-1][0] + within[-1][1]
        where = {"line": place["line"]}
        yield {**_slice(own, start + shift, end - start, place["part"]), "args": where}
        for begun, length, kind, _, peer in within:
            if KINDS[kind] != COMPUTING:
                name = KINDS[kind] if peer == NOBODY else f"waiting for {names[peer]}"
                yield _slice(own, begun + shift, length, name)
    for time, size in party["memory"]["samples"]:
        memory = {"ph": "C", "name": "memory", "ts": time * 1e6 + shift, "args": {"bytes": size}}
        yield {**own, **memory}


def _slice(own: Event, start: float, length: float, name: str) -> Event:
    return {**own, "ph": "X", "name": name, "ts": start, "dur": length}
