"""Output that is verified before, and whose last part two parties confirm; inputs of clients."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ...errors import CheatingDetected, Party
from ...transport import Spec
from .. import clients
from ..blind import unopened
from ..clients import ClientInput
from ..input_checks import check_party, plain_bits
from ..quad.verification import DIGEST, digest_of
from ..share import Arith, Bool
from ..steps import Round, Steps
from ..three_party import io as three_party
from ..three_party.io import PARTIES, holders
from .base import VerifiedBase
from .verify_claims import verify

ANEW = "do not use the shares of this run again; start anew without that party"


def reveal(
    p: VerifiedBase,
    x: Arith | Bool,
    to: int | None = None,
    *,
    dtype: torch.dtype | None = None,
    to_dealer: bool = False,
) -> Steps[Tensor | None]:
    """Returns the ring elements, or bits, on the CPU; None at other parties than `to`, if given.

    1 round after the verification: party i lacks part i, gets it from party i+1, and its hash from
    party i+2. This is the only way to open a secret to a party. `dtype` is the name of their type
    in the record of reveals; `to_dealer` is for protocols whose dealer is none of the parties.
    """
    if to is not None:
        check_party(p, "to", to)
    p.context.admit_reveal(x, to, dtype)
    if isinstance(x, Arith):
        x = yield from p.settled.steps(x)
    if p.context.blind:
        return (yield from unopened(p, x, to, to_dealer=to_dealer))
    yield from verify(p)
    receivers = PARTIES if to is None else (to,)
    send: dict[int, list[Tensor]] = {}
    if p.previous in receivers:
        send[p.previous] = [x.parts[p.previous].contiguous()]
    if p.next in receivers:
        send[p.next] = [digest_of(x.parts[p.next]).to(p.device)]
    if p.rank not in receivers:
        yield Round(send)
        return None
    first, second = x.parts.values()
    spec = Spec(tuple(first.shape), first.dtype)
    received = yield Round(send, {p.next: [spec], p.previous: [DIGEST]})
    [missing], [digest] = received[p.next], received[p.previous]
    if not torch.equal(digest_of(missing), digest.cpu()):
        raise _wrong_part(p)
    if isinstance(x, Arith):
        return (first + second + missing).cpu()
    return plain_bits((first ^ second ^ missing).cpu(), x.shape)


def _wrong_part(p: VerifiedBase) -> CheatingDetected:
    return CheatingDetected(
        Party(p.next)
        + " and "
        + Party(p.previous)
        + " disagree about the last part of a result: one of them deviates from the protocol",
        limit="the result is not used",
        remedy=ANEW,
    )


def refresh(p: VerifiedBase, x: Arith | Bool) -> Steps[Arith | Bool]:
    """Returns the same secret in fresh parts. No message.

    All parties draw the changes from one key. Two that hold the same part compare it, in case that
    the third gave them different keys.
    """
    fresh = yield from three_party.refresh(p, x)
    for part, held in fresh.parts.items():
        p.views.add(holders(part), [held])
    return fresh


def from_client(p: VerifiedBase, message: ClientInput, *, limit: int | None = None) -> Steps[Arith]:
    """Returns the secret that a client split, from the message for this party. No round.

    The two holders of each part compare it, so that a client cannot give them different ones.
    """
    x = yield from clients.from_client(p, message, limit=limit)
    for part, held in x.parts.items():
        p.views.add(holders(part), [held])
    return x


def for_client(p: VerifiedBase, x: Arith) -> Steps[Tensor | None]:
    """Returns what this party sends to a client that may learn x: both of its parts, stacked.

    Verified before. The client gets each part from two parties, and compares.
    """
    p.context.admit_client_reveal(x)
    x = yield from p.settled.steps(x)
    p.context.mesh.compare()
    if p.context.blind:
        return torch.zeros((2, *x.shape), dtype=p.ring.dtype)
    yield from verify(p)
    return torch.stack([x.parts[p.next], x.parts[p.previous]]).cpu()


def joined_output(messages: Sequence[Tensor]) -> Tensor:
    """Returns x, at a client, from the messages of all parties; raises CheatingDetected."""
    for i in PARTIES:
        if not torch.equal(messages[i][1], messages[(i + 1) % 3][0]):
            raise CheatingDetected(
                "parties that hold the same part of a result sent different ones",
                limit="the result is not used",
                remedy="ask again after the parties have found the one that deviates",
            )
    return messages[0].sum(0, dtype=messages[0].dtype) + messages[1][1]
