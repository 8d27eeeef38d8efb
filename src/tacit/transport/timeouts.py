"""How long a party waits for a peer, and the error when it stops waiting.

NOTE [slow or dead]
A party that computes for long sends heartbeats from a separate thread. While they arrive, others
wait for it up to `Limits.patience`; without them it is dead, frozen or cut off, and given up after
`Limits.deadline`. A heartbeat also says whether its party is stuck: it waits as well and receives
nothing. If all parties are stuck, they wait for each other, and waiting longer cannot help. A
message whose head has arrived needs no more computation: the rest has to follow within the
deadline. So has the rest of a part (NOTE [tiles]), but the next part may take as long as a message.
Threads of one process need no heartbeats: they see each other's state.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ..errors import Operation, Party, PeerTimeout, ProtocolDesync
from .channel import PROGRESS_BYTES, Channel
from .limits import Limits

_NO_HEARTBEAT = "not even a heartbeat: it is dead, frozen or cut off"
_LOOK = "look at what it printed, at its machine and at the network between you"
_WAIT_LONGER = "if it needs so long, raise patience in the party file"


def judge(
    waiting: Mapping[int, Channel],
    channels: Mapping[int, Channel],
    ended: Collection[int],
    limits: Limits,
    since: float,
    now: float,
    operation: int,
) -> None:
    """Raises if a peer whose message is expected since `since` is not waited for any longer.

    `ended`: peers that have said goodbye, and send nothing more.
    `now` is the time before this party last read its connections: if it was frozen itself after
    that, messages and heartbeats may have arrived that it has not seen. So may the last message of
    a peer that has ended since: the next look takes it, or raises that there is none.
    """
    if any(peer in ended for peer in waiting):
        return
    for channel in waiting.values():
        if now - max(since, channel.progress) > limits.deadline:
            all_stuck = all(c.stuck for peer, c in channels.items() if peer not in ended)
            error = _overdue(channel, limits, now, since, operation, all_stuck)
            if error is not None:
                raise error


def _overdue(
    channel: Channel, limits: Limits, now: float, since: float, operation: int, all_stuck: bool
) -> PeerTimeout | ProtocolDesync | None:
    """Returns the error for a peer that sent nothing for the deadline; None to wait longer."""
    quiet = now - max(since, channel.progress)
    peer, at = Party(channel.peer), f"for {limits.deadline} s at " + Operation(operation)
    alive = now - max(since, channel.heard) <= limits.deadline
    remedy = _LOOK
    if not alive:
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
        why, remedy = peer + nothing + Operation(operation), _WAIT_LONGER
    else:
        return None
    return PeerTimeout(why, party=channel.peer, operation=operation, alive=alive, remedy=remedy)


def silence(peer: int, seconds: float, operation: int) -> PeerTimeout:
    """Returns the error of a party accused of silence, about the peer that it waits for."""
    return PeerTimeout(
        Party(peer) + f" sent nothing for {seconds:.1f} s",
        party=peer,
        operation=operation,
    )


def stalled(
    peer: int, since: float, heard: float, now: float, limits: Limits
) -> PeerTimeout | None:
    """Returns the error for a peer that has taken nothing since `since`; None to wait longer."""
    alive = now - max(since, heard) <= limits.deadline
    if alive and now - since <= max(limits.patience, limits.deadline):
        return None
    what = f"took nothing of what is sent to it, or less than {PROGRESS_BYTES} bytes,"
    if alive:
        why = f"is alive but {what} for {limits.patience} s, the limit of patience"
    else:
        why = f"{what} for {limits.deadline} s, {_NO_HEARTBEAT}"
    remedy = _WAIT_LONGER if alive else _LOOK
    return PeerTimeout(Party(peer) + f" {why}", party=peer, alive=alive, remedy=remedy)
