"""How long a peer is waited for, and what is said when that is over.

NOTE [slow or dead]
A party that computes for long sends heartbeats, from a thread of its own. While they come it is
waited for up to `Limits.patience`; without them it is dead, frozen or cut off, and given up after
`Limits.deadline`. A heartbeat also says whether its party is stuck: waiting too, and getting
nothing. When all are, they wait for each other, and none needs to be patient. In the midst of a
message there is nothing left to compute: it has to go on within the deadline. In one process nobody
can be cut off, there are no heartbeats, and the deadline is all.
"""

from __future__ import annotations

from collections.abc import Iterable
from time import perf_counter

from ..errors import PeerTimeout, ProtocolDesync
from .channel import PROGRESS_BYTES, Channel
from .limits import Limits

_NO_HEARTBEAT = "not even a heartbeat: it is dead, frozen or cut off"


def overdue(
    channel: Channel, since: float, limits: Limits, operation: int, everybody: Iterable[Channel]
) -> PeerTimeout | ProtocolDesync | None:
    """Why a peer that owes a message since then is waited for no longer; None while it is."""
    now = perf_counter()
    quiet = now - max(since, channel.progress)
    if quiet <= limits.deadline:
        return None
    peer, at = f"party {channel.peer}", f"for {limits.deadline} s at operation {operation}"
    alive = channel.heard is None or now - max(since, channel.heard) <= limits.deadline
    if channel.heard is None:
        why = f"{peer} sent nothing {at}, or less than {PROGRESS_BYTES} bytes"
    elif not alive:
        why = f"{peer} sent nothing {at}, {_NO_HEARTBEAT}"
    elif channel.in_message():
        why = f"{peer} is alive but sent less than {PROGRESS_BYTES} bytes of a message {at}"
    elif all(other.stuck for other in everybody):
        return ProtocolDesync(
            f"{peer} sent nothing {at} and waits too, as all do: the parties must run the same "
            "program",
            party=channel.peer,
            operation=operation,
        )
    elif quiet > limits.patience:
        why = (
            f"{peer} is alive but sent nothing for {limits.patience} s, the limit of patience, "
            f"at operation {operation}"
        )
    else:
        return None
    return PeerTimeout(why, party=channel.peer, operation=operation, alive=alive)


def silence(peer: int, since: float, operation: int) -> PeerTimeout:
    """What one that is accused of silence says of the peer that it waits for itself."""
    return PeerTimeout(
        f"party {peer} sent nothing for {perf_counter() - since:.1f} s at operation {operation}",
        party=peer,
        operation=operation,
    )


def stalled(peer: int, since: float, heard: float, limits: Limits) -> PeerTimeout | None:
    """Why a peer that takes nothing since then is waited for no longer; None while it is."""
    now = perf_counter()
    alive = now - max(since, heard) <= limits.deadline
    if alive and now - since <= max(limits.patience, limits.deadline):
        return None
    what = f"took nothing of what is sent to it, or less than {PROGRESS_BYTES} bytes,"
    if alive:
        why = f"is alive but {what} for {limits.patience} s, the limit of patience"
    else:
        why = f"{what} for {limits.deadline} s, {_NO_HEARTBEAT}"
    return PeerTimeout(f"party {peer} {why}", party=peer, alive=alive)
