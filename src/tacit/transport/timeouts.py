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

from collections.abc import Mapping

from ..errors import Operation, Party, PeerTimeout, ProtocolDesync
from .channel import PROGRESS_BYTES, Channel
from .limits import Limits

_NO_HEARTBEAT = "not even a heartbeat: it is dead, frozen or cut off"


def judge(
    waiting: Mapping[int, Channel],
    channels: Mapping[int, Channel],
    limits: Limits,
    since: float,
    now: float,
    operation: int,
) -> None:
    """Raise if a peer that owes a message since then is waited for no longer.

    `now` is when this party began to look for what had come: if it was frozen itself after that,
    it knows too little to judge.
    """
    for channel in waiting.values():
        if now - max(since, channel.progress) > limits.deadline:
            all_stuck = all(other.stuck for other in channels.values())
            error = _overdue(channel, limits, now, since, operation, all_stuck)
            if error is not None:
                raise error


def _overdue(
    channel: Channel, limits: Limits, now: float, since: float, operation: int, all_stuck: bool
) -> PeerTimeout | ProtocolDesync | None:
    """The error for a peer that sent nothing for the deadline; None if it is given more time."""
    quiet = now - max(since, channel.progress)
    peer, at = Party(channel.peer), f"for {limits.deadline} s at " + Operation(operation)
    alive = channel.heard is None or now - max(since, channel.heard) <= limits.deadline
    if channel.heard is None:
        why = peer + " sent nothing " + at + f", or less than {PROGRESS_BYTES} bytes"
    elif not alive:
        why = peer + " sent nothing " + at + f", {_NO_HEARTBEAT}"
    elif channel.in_message():
        less = f" is alive but sent less than {PROGRESS_BYTES} bytes of a message "
        why = peer + less + at
    elif all_stuck:
        return ProtocolDesync(
            peer + " sent nothing " + at + " and waits too, as all do",
            remedy="the parties must run the same program",
            party=channel.peer,
            operation=operation,
        )
    elif quiet > limits.patience:
        nothing = f" is alive but sent nothing for {limits.patience} s, the limit of patience, at "
        why = peer + nothing + Operation(operation)
    else:
        return None
    return PeerTimeout(why, party=channel.peer, operation=operation, alive=alive)


def silence(peer: int, seconds: float, operation: int) -> PeerTimeout:
    """What one that is accused of silence says of the peer that it waits for itself."""
    return PeerTimeout(
        Party(peer) + f" sent nothing for {seconds:.1f} s",
        party=peer,
        operation=operation,
    )


def stalled(
    peer: int, since: float, heard: float, now: float, limits: Limits
) -> PeerTimeout | None:
    """Why a peer that takes nothing since then is waited for no longer; None while it is."""
    alive = now - max(since, heard) <= limits.deadline
    if alive and now - since <= max(limits.patience, limits.deadline):
        return None
    what = f"took nothing of what is sent to it, or less than {PROGRESS_BYTES} bytes,"
    if alive:
        why = f"is alive but {what} for {limits.patience} s, the limit of patience"
    else:
        why = f"{what} for {limits.deadline} s, {_NO_HEARTBEAT}"
    return PeerTimeout(Party(peer) + f" {why}", party=peer, alive=alive)
