"""What a run used its links for: how busy each was, who waited, and which operations sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .screen import Screen

if TYPE_CHECKING:
    from ..runtime import Session
    from ..transport.shaping import Network
    from ..transport.stats import Tally

Report = dict[str, Any]
SHOWN = 3  # operations in the line of a party


def start_counting(session: Session) -> Tally:
    """Makes the session's stats add up what it sends by operation; returns the cost so far."""
    record = session.mesh.record
    session.stats.operation_name = lambda: record.last_name
    return session.stats.snapshot()


def traffic(session: Session, before: Tally) -> Report:
    """Returns what this party waited, its bytes by peer, and those sent by operation, since then.

    Overloads of one operation of torch count as one.
    """
    spent = session.stats.snapshot().accumulate(before, -1)
    sent: dict[str, int] = {}
    for name, size in session.stats.operations.items():
        kind = _kind(name)
        sent[kind] = sent.get(kind, 0) + size
    return {
        "seconds_waiting": round(spent.seconds_waiting, 3),
        "links": {
            session.names[peer]: {
                "bytes_sent": cost.bytes_sent,
                "bytes_received": cost.bytes_received,
            }
            for peer, cost in spent.peers.items()
        },
        "operations": dict(sorted(sent.items(), key=lambda item: -item[1])),
    }


def _kind(name: str) -> str:
    """Returns "aten.mul" for aten::mul.Tensor, and "share" for a share of any shape."""
    return name.replace("aten::", "aten ").split(":")[0].split(".")[0].replace("aten ", "aten.")


def add_percentages(reports: Sequence[Report], names: Sequence[str], network: Network) -> None:
    """Adds to each link of the parties' reports how busy its two directions were, in percent.

    100 % is what the bandwidth carries in the time of the slowest party: a dealer that sends ahead
    ends before its messages have arrived.
    """
    seconds = max(report["seconds"] for report in reports)
    for rank, report in enumerate(reports):
        for peer, link in report["links"].items():
            bandwidth = network.between(rank, names.index(peer)).bandwidth
            for way in ("sent", "received"):
                share = link[f"bytes_{way}"] * 8 / bandwidth / seconds if seconds else 0.0
                link[f"percent_{way}"] = round(100 * share, 1)


def print_link_use(screen: Screen, report: Report) -> None:
    """Prints how busy the busiest link of a party was, its waiting, and what it sent most for."""
    uses = [
        (link[f"percent_{way}"], f"{word} {peer}")
        for peer, link in report["links"].items()
        for way, word in (("sent", "to"), ("received", "from"))
    ]
    percent, where = max(uses)
    total = sum(report["operations"].values())
    most = list(report["operations"].items())[:SHOWN]
    shares = ", ".join(f"{name} {size / total:.0%}" for name, size in most if size > 0.005 * total)
    screen.line(
        f"  busiest link {where}: {percent:g}% of its bandwidth; waited "
        f"{report['seconds_waiting']:.3g} of {report['seconds']:.3g} s"
        + (f"; sent for {shares}" if shares else "")
    )
